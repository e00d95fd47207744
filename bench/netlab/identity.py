"""What makes processes believe that they are on a host of their own: its name, and shared memory
that ends at its border."""

import ctypes
import os
import socket

_KINDS = ("uts", "ipc")
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _open_own():
    return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in _KINDS]


class Identity:
    """A UTS and an IPC namespace, which live as long as this object or a process in them. UCX's
    shared memory reaches no further than an IPC namespace. Throws OSError."""

    def __init__(self, hostname):
        before = _open_own()
        try:
            _check(_libc.unshare(_CLONE_NEWUTS | _CLONE_NEWIPC), "unshare")
            socket.sethostname(hostname)
            self._descriptors = _open_own()
        finally:
            for descriptor in before:
                _check(_libc.setns(descriptor, 0), "setns")
                os.close(descriptor)

    def enter(self):
        for descriptor in self._descriptors:
            _check(_libc.setns(descriptor, 0), "setns")

    def close(self):
        for descriptor in self._descriptors:
            os.close(descriptor)
