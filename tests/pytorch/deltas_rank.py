"""One of two ranks that gather their shards of weights under delta=, of which a step is left out:
deltas_rank.py, with terse's module."""

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

import terse

SHARD = 50_000

dist.init_process_group("hostnccl")
RANK = dist.get_rank()
GLOO = dist.new_group(backend="gloo")
torch.manual_seed(RANK)
shard, weights = torch.randn(SHARD), torch.zeros(2 * SHARD)
stats = lambda: terse.stats(dist.group.WORLD)


def gather(changed):
    """Both forward and backward pass, of which the second one has nothing to say."""
    if changed:
        shard.add_(torch.randn(SHARD), alpha=0.01)
    for _ in "fb":
        dist.all_gather_into_tensor(weights, shard)
        expected = [torch.empty_like(shard) for _ in range(2)]
        dist.all_gather(expected, shard, group=GLOO)
        torch.testing.assert_close(weights, torch.cat(expected), atol=0.02, rtol=0)


gather(True)
assert (stats().delta_calls, stats().delta_full["first"]) == (0, 1)
for taken in (True, False, False, True):
    before = stats()
    gather(taken)
    told = stats()
    # In the backward pass, and in a step that was left out, nothing has changed.
    assert told.delta_calls - before.delta_calls == taken, told
    assert told.delta_unchanged - before.delta_unchanged == 2 - taken, told
    assert sum(told.delta_full.values()) == 1, told
dist.destroy_process_group()
print("good")
