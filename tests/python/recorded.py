"""The messages that PyTorch sends: its collectives, recorded, and done by gloo's AllReduce and
AllGather, for gloo has no averages."""

import collections
import contextlib

import torch
import torch.distributed as dist

# What lies in a whole message, of all ranks; the collective that it was sent by.
Sent = collections.namedtuple("Sent", ["collective", "group", "data"])


# PyTorch 2.15 has other names for two of them.
NAMES = {"all_gather": "all_gather", "all_reduce": "all_reduce",
         "all_gather_into_tensor": "gather_whole", "all_gather_single": "gather_whole",
         "reduce_scatter_tensor": "scatter_whole", "reduce_scatter_single": "scatter_whole"}


@contextlib.contextmanager
def recorded():
    """Yields the list of what is Sent from then on."""
    sent = []
    real = {name: getattr(dist, name) for name in NAMES if hasattr(dist, name)}

    def keep(collective, group, data):
        sent.append(Sent(collective, group or dist.group.WORLD, data.detach().clone()))

    def sum_up(data, op, group):
        real["all_reduce"](data, group=group)
        if op == dist.ReduceOp.AVG:
            data /= dist.get_world_size(group)

    def all_gather(parts, data, group=None, async_op=False):
        assert not async_op
        real["all_gather"](parts, data, group)
        keep("AllGather", group, torch.cat(parts))

    def gather_whole(output_tensor, input_tensor, group=None, async_op=False):
        assert not async_op
        parts = [torch.empty_like(input_tensor) for _ in range(dist.get_world_size(group))]
        real["all_gather"](parts, input_tensor.clone(), group)
        output_tensor.copy_(torch.cat(parts))
        keep("AllGather", group, output_tensor)

    def scatter_whole(output, input, op=dist.ReduceOp.SUM, group=None, async_op=False):
        assert not async_op
        keep("ReduceScatter", group, input)
        whole = input.clone()
        sum_up(whole, op, group)
        output.copy_(whole.chunk(dist.get_world_size(group))[dist.get_rank(group)])

    def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        keep("AllReduce", group, tensor)
        if async_op:
            return real["all_reduce"](tensor, op, group, async_op)
        return sum_up(tensor, op, group)

    ours = {each.__name__: each for each in (all_gather, all_reduce, gather_whole, scatter_whole)}
    try:
        for name in real:
            setattr(dist, name, ours[NAMES[name]])
        yield sent
    finally:
        for name, function in real.items():
            setattr(dist, name, function)
