"""What a Python program can say to terse, and ask it.

    import terse
    import terse.models

    if terse.active():                      # started by `terse run`, or with LD_PRELOAD
        terse.models.exclude_norms(model)   # norms and biases travel as they are
    ...
    with terse.paused(group):               # a checkpoint that is gathered is exact
        save(model)
    print(terse.stats(group).wire_bytes)

A communicator is an ncclComm_t, as an int, or a torch.distributed.ProcessGroup of NCCL. Where the
preload library is in the process all of this is about NCCL's own calls, as PyTorch makes them;
otherwise about those that a program makes to libterse.so by name. Nothing here needs a compiler or
another package; torch is only used where its own objects are handed in.
"""

from ._exclude import exclude
from ._levels import levels, set_levels
from ._library import Error, active, policy, version
from ._pause import paused
from ._stats import BYPASSES, Stats, stats

__all__ = ["BYPASSES", "Error", "Stats", "active", "exclude", "levels", "paused", "policy",
           "set_levels", "stats", "version"]
