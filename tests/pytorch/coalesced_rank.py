"""One rank that sends several calls together, by torch's _coalescing_manager and by what it stands on:
coalesced_rank.py COMPRESSED

COMPRESSED is how many of them are to be compressed; 0: terse is not there, and sums are those of small whole
numbers. On slices of one buffer, in fp32 and bf16, one of them empty, on either side of 64 KiB, from which on
calls are compressed."""

import sys

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

COMPRESSED = int(sys.argv[1])
EXACT = COMPRESSED == 0
ERROR = 0 if EXACT else 0.15  # fp8's, which is encoded twice
SIZES = (5, 16_383, 0, 16_385, 70_001)  # elements; 64 KiB are 16,384 in fp32 and 32,768 in bf16
CPU = torch.device("cpu")

dist.init_process_group("hostnccl")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
ALL = range(RANKS)


def data(rank, size, dtype):
    return (1 + (torch.arange(size) * (rank + 2) + rank) % 4).to(dtype)


def slices(buffer, sizes):
    """One behind the other, and from an odd element on."""
    begins = [1 + sum(sizes[:k]) for k in range(len(sizes))]
    return [buffer[begin:begin + size] for begin, size in zip(begins, sizes)]


def filled(sizes, dtype):
    """A buffer of this rank's numbers, and its slices."""
    buffer = torch.full((2 + sum(sizes),), 9, dtype=dtype)
    parts = slices(buffer, sizes)
    for part in parts:
        part.copy_(data(RANK, len(part), dtype))
    return buffer, parts


def near(got, expected):
    torch.testing.assert_close(got, expected.to(got.dtype), rtol=ERROR, atol=0)


def total(size, dtype):
    return sum(data(rank, size, torch.float32) for rank in ALL).to(dtype)


def alike(tensor):
    """On all ranks, bit by bit."""
    mine = tensor.contiguous().view(torch.uint8)
    first = mine.clone()
    dist.broadcast(first, 0, group=GLOO)
    assert torch.equal(mine, first), "ranks differ"


def untouched(buffer):
    assert buffer[0] == 9 and buffer[-1] == 9


def sums_of_one_buffer():
    for dtype in (torch.float32, torch.bfloat16):
        for device in (None, CPU):
            buffer, parts = filled(SIZES, dtype)
            with dist._coalescing_manager(device=device):
                for part in parts:
                    dist.all_reduce(part)
            for part in parts:
                near(part, total(len(part), dtype))
            untouched(buffer)
            alike(buffer)


def shards_of_one_buffer():
    """Each rank's part of a slice, in place and elsewhere; the work is waited for later."""
    sizes = tuple(RANKS * size for size in SIZES)
    for dtype in (torch.float32, torch.bfloat16):
        for in_place in (False, True):
            buffer, parts = filled(sizes, dtype)
            own = [part.view(RANKS, -1)[RANK] for part in parts]
            if not in_place:
                own = [torch.empty_like(each) for each in own]
            with dist._coalescing_manager(async_ops=True) as work:
                for shard, part in zip(own, parts):
                    dist.reduce_scatter_tensor(shard, part)
            work.wait()
            for shard in own:
                near(shard, total(RANKS * len(shard), dtype).view(RANKS, -1)[RANK])
            untouched(buffer)


def kinds_and_types_together():
    """Sums and shards of fp32 and bf16 in one batch, and what is gathered."""
    wide, sums = filled(SIZES, torch.float32)
    narrow, others = filled(SIZES, torch.bfloat16)
    shards = [torch.empty(size, dtype=torch.bfloat16) for size in SIZES]
    wholes = [torch.empty(RANKS * size) for size in SIZES]
    group, scattered = dist.group.WORLD, [data(RANK, RANKS * size, torch.bfloat16) for size in SIZES]
    gathered = [data(RANK, size, torch.float32) for size in SIZES]
    group._start_coalescing(CPU)  # the manager takes one kind and one type
    for k in range(len(SIZES)):
        group.allreduce([sums[k]])
        group.allreduce([others[k]])
        group._reduce_scatter_base(shards[k], scattered[k])
        group._allgather_base(wholes[k], gathered[k])
    group._end_coalescing(CPU).wait()
    for first, second, shard, whole in zip(sums, others, shards, wholes):
        size = len(shard)
        near(first, total(size, torch.float32))
        near(second, total(size, torch.bfloat16))
        near(shard, total(RANKS * size, torch.bfloat16).view(RANKS, -1)[RANK])
        near(whole, torch.cat([data(rank, size, torch.float32) for rank in ALL]))
        alike(whole)
    for buffer in (wide, narrow):
        untouched(buffer)
        alike(buffer)


sums_of_one_buffer()
shards_of_one_buffer()
kinds_and_types_together()
if not EXACT:
    import terse

    assert terse.stats(dist.group.WORLD).calls == COMPRESSED, terse.stats(dist.group.WORLD)
dist.destroy_process_group()
print("good")
