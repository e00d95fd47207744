"""Batches of messages where torch makes none of the CPU's: in its older releases `batch_isend_irecv` makes
calls of their own for tensors of the CPU, so that ranks in a ring wait for each other."""

import functools

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from . import _C


def _is_ours(group):
    return isinstance(group._get_backend(torch.device("cpu")), _C.HostGroup)


def _batched(original):
    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list):
        distributed_c10d._check_p2p_op_list(p2p_op_list)
        group, device = p2p_op_list[0].group, p2p_op_list[0].tensor.device
        if device.type != "cpu" or not _is_ours(group or dist.group.WORLD):
            return original(p2p_op_list)
        with distributed_c10d._coalescing_manager(group, device, async_ops=True) as manager:
            for op in p2p_op_list:
                op.op(op.tensor, op.peer, op.group, op.tag)
        return manager.works
    return batch_isend_irecv


def install():
    """Nothing, where torch asks the backend itself."""
    if hasattr(torch._C._distributed_c10d.Backend, "supports_coalescing"):
        return
    batched = _batched(distributed_c10d.batch_isend_irecv)
    dist.batch_isend_irecv = distributed_c10d.batch_isend_irecv = batched
