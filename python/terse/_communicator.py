"""The ncclComm_t behind what a program has at hand."""

import ctypes
import sys

from ._library import Error


def communicator(comm):
    """The ncclComm_t as a ctypes.c_void_p. `comm`: that, an int, or a torch.distributed.ProcessGroup
    whose backend for CUDA, or for the CPU, is NCCL; of such a group it is the communicator of the current device,
    which PyTorch makes at the group's first collective call, or at once where init_process_group was
    given a device_id. Raises Error where there is none, as in a group without this rank."""
    if isinstance(comm, ctypes.c_void_p):
        return comm
    if comm is None:
        raise Error("None is no communicator: PyTorch's default group is "
                    "torch.distributed.group.WORLD")
    if isinstance(comm, int) and not isinstance(comm, bool) and comm > 0:
        return ctypes.c_void_p(comm)
    pointer = pointer_of(comm)
    if not pointer:
        raise Error(f"{comm!r} has no NCCL communicator on this device yet: PyTorch makes it at the "
                    "group's first collective call, or give init_process_group a device_id")
    return ctypes.c_void_p(pointer)


def pointer_of(group):
    """The same as an int; 0: there is none yet."""
    if isinstance(group, int):  # such as torch's GroupMember.NON_GROUP_MEMBER
        raise Error(f"{group} is no communicator: this rank is not in the group")
    backends = list(map(_unwrapped,
                        _backends(group) if hasattr(group, "_get_backend") else [group]))
    for backend in backends:
        if hasattr(backend, "_comm_ptr"):
            return backend._comm_ptr()
    names = " and ".join(type(backend).__name__ for backend in backends) or repr(group)
    raise Error(f"{names} does not tell its ncclComm_t: that takes PyTorch 2.8 and the backend nccl; "
                "pass the ncclComm_t as an int")


def made_pointer_of(group):
    """pointer_of() of a ProcessGroup. Where PyTorch has not made its communicator yet a barrier does so,
    to which all its ranks come."""
    if not pointer_of(group):
        import torch.distributed

        torch.distributed.barrier(group=group)
    return pointer_of(group)


def _backends(group):
    """Of a group: for CUDA, then for the CPU, where it may be one on NCCL's interface over host
    memory."""
    for device in ("cuda", "cpu"):
        try:
            yield group._get_backend(sys.modules["torch"].device(device))
        except RuntimeError:
            pass  # it has none


def _unwrapped(backend):
    """That to which another one hands all calls, as torch's does with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    while hasattr(backend, "wrapped_pg"):
        backend = backend.wrapped_pg
    return backend
