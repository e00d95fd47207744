"""Calls that stay native for a while."""

import contextlib
import ctypes

from ._communicator import communicator
from ._library import Error, active, call


def _pause(comm, on):
    call("tersePreloadPause", "", comm, ctypes.c_int(on))  # libterse.so has nothing of the kind


@contextlib.contextmanager
def paused(*comms):
    """Within it what is sent is exact: all of NCCL's calls on some communicators stay native.

    comms     each an ncclComm_t as an int, or a ProcessGroup

    For checkpoints that are gathered (FSDP1's sharded ones, too, both when they are saved and when they
    are loaded), for FSDP1's summon_full_params(), for weights that are averaged.
    All ranks of the communicators come to its beginning alike, and wait for each other there; and to
    its end after the same calls, where none waits, also by an exception. Raises Error where they
    differ, and where no communicator is named. Of some within others only the outermost counts. A
    communicator may be destroyed within it.
    Without the preload library nothing is to be done.
    """
    if not comms:
        raise Error("terse.paused() pauses nothing: name the communicators, or ProcessGroups, whose "
                    "calls are to stay native")
    if not active():
        yield
        return
    with contextlib.ExitStack() as stack:  # resumes each, though another cannot be
        for comm in map(communicator, comms):
            _pause(comm, 1)
            stack.callback(_pause, comm, 0)
        yield
