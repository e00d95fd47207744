"""Children that are forked when PyTorch has been read, which takes longer than what they do. So would
looking for garbage in it, and taking it apart."""

import ctypes
import gc
import sys


def keep_all():
    """Before the forks: what there is by now is nobody's garbage."""
    gc.freeze()


def leave():
    """Ends this process as C does: libraries have their ends, as terse's report, and Python has none."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.PyDLL(None).exit(0)
