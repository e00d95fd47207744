"""The ncclComm_t behind what a program has at hand."""

import ctypes
import sys

from ._library import Error


def communicator(comm):
    """The ncclComm_t as a ctypes.c_void_p. `comm`: that, an int, or a torch.distributed.ProcessGroup
    whose backend for CUDA is NCCL; of such a group it is the communicator of the current device,
    which PyTorch makes at the group's first collective call, or at once where init_process_group was
    given a device_id. Raises Error where there is none."""
    if isinstance(comm, ctypes.c_void_p):
        return comm
    if isinstance(comm, int):
        return ctypes.c_void_p(comm)
    pointer = pointer_of(comm)
    if not pointer:
        raise Error(f"{comm!r} has no NCCL communicator on this device yet: PyTorch makes it at the "
                    "group's first collective call, or give init_process_group a device_id")
    return ctypes.c_void_p(pointer)


def pointer_of(group):
    """The same as an int; 0: there is none yet."""
    backend = group
    if hasattr(group, "_get_backend"):
        try:
            backend = group._get_backend(sys.modules["torch"].device("cuda"))
        except RuntimeError as why:
            raise Error(f"{group!r} has no backend for CUDA: {why}") from why
    ask = getattr(backend, "_comm_ptr", None)
    if ask is None:
        raise Error(f"{type(backend).__name__} does not tell its ncclComm_t: that takes PyTorch 2.8 "
                    "and the backend nccl; pass the ncclComm_t as an int")
    return ask()
