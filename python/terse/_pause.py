"""Calls that stay native for a while."""

import contextlib
import ctypes

from ._communicator import communicator
from ._library import active, call


def _pause(comm, on):
    call("tersePreloadPause", "tersePreloadPause", comm, ctypes.c_int(on))


@contextlib.contextmanager
def paused(*comms):
    """Within it what is sent is exact: all of NCCL's calls on some communicators stay native.

    comms     each an ncclComm_t as an int, or a ProcessGroup; none twice

    For checkpoints that are gathered, for FSDP1's summon_full_params(), for weights that are averaged.
    All ranks of the communicators come to its beginning and to its end alike, and wait for each other
    there. Raises Error where they differ. Without the preload library nothing is to be done.
    """
    if not active():
        yield
        return
    done = []
    try:
        for comm in map(communicator, comms):
            _pause(comm, 1)
            done.append(comm)
        yield
    finally:
        for comm in done:
            _pause(comm, 0)
