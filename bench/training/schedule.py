"""The learning rate: it warms up, then falls along a cosine to nearly nothing, so that losses at the
end can be compared."""

import math

_WARM = 0.1  # of all steps
_END = 0.01  # of the highest rate


def rate(step, steps, highest):
    """Of a step, from 0 on."""
    warm = max(1, round(_WARM * steps))
    if step < warm:
        return highest * (step + 1) / warm
    done = (step - warm) / max(1, steps - 1 - warm)
    return highest * (_END + (1 - _END) * (1 + math.cos(math.pi * done)) / 2)
