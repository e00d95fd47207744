"""Which parameters stay exact."""

import math

SMALL = 1024  # elements


def norms_and_biases(name, shape):
    """Norms, biases and what else is a vector or small: few elements, and sensitive (QSDP, section
    5). `name` is not looked at."""
    del name
    return len(shape) < 2 or math.prod(shape) < SMALL
