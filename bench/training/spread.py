"""Means, and how far they can be trusted."""

import math

# Student's t, 97.5 %, for 1 to 30 degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
      2.052, 2.048, 2.045, 2.042)


def student(degrees):
    """Beyond the table a little more than it is, never less."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    return 2.04 if degrees <= 60 else 2.0


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    """Of a sample; None where there is but one."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def interval(values):
    """Half the width of the mean's 95 % confidence interval; None: one value says nothing of it."""
    spread = deviation(values)
    if spread is None:
        return None
    return student(len(values) - 1) * spread / math.sqrt(len(values))


def paired(values, natives):
    """({seed: value}, {seed: native's}) -> relative differences of the seeds that both have."""
    return [values[seed] / natives[seed] - 1 for seed in sorted(values) if seed in natives]
