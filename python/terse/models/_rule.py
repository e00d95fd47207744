"""Which parameters stay exact."""

import math

SMALL = 1024  # elements
# What stands in the names of modules that are wrapped, and of all that is in them.
WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


def plain(*names):
    """The name that a model itself has for a parameter, of the parts of another one."""
    parts = ".".join(names).split(".")
    return ".".join(part for part in parts if part and part not in WRAPPERS)


def norms_and_biases(name, shape):
    """Norms, biases and what else is a vector or small: few elements, and sensitive (QSDP, section
    5). `name` is not looked at."""
    del name
    return len(shape) < 2 or math.prod(shape) < SMALL
