"""Levels of learned schemes."""

import ctypes

from ._communicator import communicator
from ._library import Error, call

BY_PRELOAD, BY_NAME = "tersePreloadGetLevels", "terseCommGetLevels"


def levels(comm):
    """The levels by which calls of learned schemes on a communicator go, as text in TOML: what
    set_levels() takes, and TERSE_LEVELS reads. "": there are none yet. Waits for nobody. Raises
    Error."""
    comm, needed = communicator(comm), ctypes.c_size_t()
    call(BY_PRELOAD, BY_NAME, comm, None, ctypes.c_size_t(), ctypes.byref(needed))
    room = 2 * needed.value + 4096  # levels may come meanwhile
    text = ctypes.create_string_buffer(room)
    call(BY_PRELOAD, BY_NAME, comm, text, ctypes.c_size_t(room), ctypes.byref(needed))
    return text.value.decode()


def set_levels(comm, text):
    """From now on calls of learned schemes on a communicator go by these levels (terse.h has the
    form). Every rank calls it alike, with nothing under way; it blocks. Raises Error on all ranks,
    and changes nothing, where one of them gives others or what cannot be levels."""
    if "\0" in text:
        raise Error("a NUL is in the levels")
    call("tersePreloadSetLevels", "terseCommSetLevels", communicator(comm), text.encode())
