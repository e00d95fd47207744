"""One rank that trains with PyTorch's own DDP and FSDP2 on the backend hostnccl:
training_rank.py exact|compressed|kept. Exactly, it is compared with the same on gloo; kept is what a
scheme with own=exact leaves of a rank's own shard. FSDP2 where torch's runs without CUDA."""

import sys

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # older ones ask for CUDA's streams outright
    fully_shard = None

EXACT = sys.argv[1] == "exact"
WIDTH = 192  # weights of more than 64K bytes, which are compressed

dist.init_process_group("hostnccl")
RANK = dist.get_rank()


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(),
                               torch.nn.Linear(WIDTH, WIDTH))


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(1 + RANK)
    for _ in range(4):
        x = torch.randn(8, WIDTH, generator=data)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def ddp(group):
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=0.2)
    train(model)
    return [parameter.detach() for parameter in model.parameters()]


def fsdp(group):
    model, mesh = network(), DeviceMesh.from_group(group, "cpu")
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    train(model)
    return [parameter.detach().to_local() for parameter in model.parameters()]


def summoning_changes_shards(model):
    """Whether FSDP1's own weights are others after all were gathered, and written back."""
    shards = [parameter.detach().clone() for parameter in model.parameters()]
    with FullyShardedDataParallel.summon_full_params(model):
        pass
    return not all(map(torch.equal, shards, (p.detach() for p in model.parameters())))


gloo = dist.new_group(backend="gloo")
for way in (ddp, fsdp) if fully_shard else (ddp,):
    got, expected = way(dist.group.WORLD), way(gloo)
    for ours, theirs in zip(got, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-6 if EXACT else 1e-2, rtol=1e-5)
    if way is ddp:
        for tensor in got:
            first = tensor.clone()
            dist.broadcast(first, 0, group=gloo)
            assert torch.equal(first, tensor), "the replicas differ"
if not EXACT:  # the module terse knows the group's communicator
    import terse.models

    told = terse.stats(dist.group.WORLD)
    assert told.calls > 0 and told.native_bytes > 0, told
    model = DistributedDataParallel(network(), bucket_cap_mb=0.2)
    buckets = terse.models.DdpBuckets(model)
    train(model)
    excluded = terse.models.exclude_norms(buckets)
    assert [message.group for message in excluded] == [dist.group.WORLD] * len(excluded) != []
    train(model)
    told, before = terse.stats(dist.group.WORLD), told
    assert told.calls > before.calls
    sharded = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    with terse.paused(dist.group.WORLD):
        assert not summoning_changes_shards(sharded)
    assert terse.stats(dist.group.WORLD).calls == told.calls
    assert summoning_changes_shards(sharded) == (sys.argv[1] != "kept")
    assert terse.stats(dist.group.WORLD).calls > told.calls
    train(sharded)
dist.destroy_process_group()
print("good")
