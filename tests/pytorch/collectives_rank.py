"""One rank that calls all that torch.distributed has, on the backend hostnccl, and looks at the values:
collectives_rank.py, with torchrun's variables."""

import datetime
import time

import torch
import torch.distributed as dist
import torch_hostnccl

INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EIGHTS = [torch.float8_e4m3fn, torch.float8_e5m2]
# Of each type, and more of one.
CASES = [(torch.float32, size) for size in (0, 1, 70_001)]
CASES += [(dtype, 13) for dtype in INTEGERS + FLOATS]

dist.init_process_group("hostnccl")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
ALL = range(RANKS)
ROOT = RANKS - 1
CPU = torch.device("cpu")


def data(rank, size=7, dtype=torch.float32, salt=0):
    """Of a rank: small whole numbers, whose sums are exact in any type."""
    numbers = (torch.arange(size) * (rank + 2) + rank + salt) % 4
    return numbers.to(dtype) if dtype != torch.bool else numbers % 2 == 1


def total(size=7, dtype=torch.float32, salt=0):
    return sum(data(rank, size, torch.int64, salt) for rank in ALL).to(dtype)


def gathered(size=7, dtype=torch.float32, salt=0):
    return torch.cat([data(rank, size, dtype, salt) for rank in ALL])


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
    bits = torch.int8 if got.element_size() == 1 else got.dtype  # fp8 cannot be compared
    assert torch.equal(got.view(bits), expected.view(bits)), (RANK, got, expected)


def refused(error, text, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except error as it:
        assert text in str(it), it
    else:
        raise AssertionError(f"{call} was not refused")


def all_reduce():
    for dtype, size in CASES:
        tensor = data(RANK, size, dtype)
        dist.all_reduce(tensor)
        same(tensor, total(size, dtype))
    stack = torch.stack([data(rank, salt=1) for rank in ALL])
    for op, expected in [(dist.ReduceOp.MAX, stack.amax(0)), (dist.ReduceOp.MIN, stack.amin(0)),
                         (dist.ReduceOp.PRODUCT, stack.prod(0)), (dist.ReduceOp.AVG, stack.mean(0))]:
        tensor = data(RANK, salt=1)
        dist.all_reduce(tensor, op)
        torch.testing.assert_close(tensor, expected)
    flags = data(RANK, dtype=torch.bool)
    dist.all_reduce(flags)
    same(flags, torch.stack([data(rank, dtype=torch.bool) for rank in ALL]).any(0))
    pairs = torch.complex(data(RANK), data(RANK, salt=1))
    dist.all_reduce(pairs)
    same(pairs, torch.complex(total(), total(salt=1)))
    for dtype in FLOATS:
        scaled = data(RANK, dtype=dtype)
        dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
        torch.testing.assert_close(scaled, total(dtype=dtype) / 2)
    scaled, factor = data(RANK), torch.tensor([0.5])
    work = dist.all_reduce(scaled, dist._make_nccl_premul_sum(factor), async_op=True)
    factor.fill_(7)  # it was read
    work.wait()
    torch.testing.assert_close(scaled, total() / 2)
    infinite = torch.tensor([0, float("inf"), -float("inf"), float("nan")])
    odd = infinite.clone() if RANK == ROOT else torch.ones(4)
    dist.all_reduce(odd)
    torch.testing.assert_close(odd, infinite + (RANKS - 1), equal_nan=True)


def all_gather():
    for dtype, size in CASES + [(dtype, 13) for dtype in EIGHTS + [torch.bool]]:
        whole = torch.empty(RANKS * size, dtype=dtype)
        dist.all_gather_into_tensor(whole, data(RANK, size, dtype))
        same(whole, gathered(size, dtype))
        parts = [torch.empty(size, dtype=dtype) for _ in ALL]
        dist.all_gather(parts, data(RANK, size, dtype))
        for rank, part in enumerate(parts):
            same(part, data(rank, size, dtype))
    whole = torch.empty(RANKS * 7)
    whole[RANK * 7:RANK * 7 + 7] = data(RANK)
    dist.all_gather_into_tensor(whole, whole[RANK * 7:RANK * 7 + 7])
    same(whole, gathered())
    uneven = [torch.empty(3 * rank) for rank in ALL]
    dist.all_gather(uneven, data(RANK, 3 * RANK))
    for rank, part in enumerate(uneven):
        same(part, data(rank, 3 * rank))
    objects = [None] * RANKS
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK})
    assert objects == [{"rank": rank, "text": "x" * rank} for rank in ALL]


def reduce_scatter():
    for dtype, size in CASES:
        whole, mine = total(RANKS * size, dtype), slice(RANK * size, RANK * size + size)
        part = torch.empty(size, dtype=dtype)
        dist.reduce_scatter_tensor(part, data(RANK, RANKS * size, dtype))
        same(part, whole[mine])
        part = torch.empty(size, dtype=dtype)
        dist.reduce_scatter(part, list(data(RANK, RANKS * size, dtype).view(RANKS, size)))
        same(part, whole[mine])
    mean = torch.empty(7)
    dist.reduce_scatter_tensor(mean, data(RANK, RANKS * 7), dist.ReduceOp.AVG)
    torch.testing.assert_close(mean, total(RANKS * 7)[RANK * 7:RANK * 7 + 7] / RANKS)
    uneven = torch.empty(3 * RANK)
    dist.reduce_scatter(uneven, [data(RANK, 3 * rank) for rank in ALL])
    same(uneven, total(3 * RANK))


def rooted():
    tensor = data(RANK)
    dist.broadcast(tensor, ROOT)
    same(tensor, data(ROOT))
    tensor = data(RANK)
    dist.reduce(tensor, ROOT)
    if RANK == ROOT:
        same(tensor, total())
    parts = [torch.empty(7) for _ in ALL] if RANK == ROOT else None
    dist.gather(data(RANK), parts, ROOT)
    if RANK == ROOT:
        same(torch.cat(parts), gathered())
    mine = torch.empty(7)
    dist.scatter(mine, [data(rank) for rank in ALL] if RANK == ROOT else None, ROOT)
    same(mine, data(RANK))
    for size in (0, 3):
        tensor = data(RANK, size)
        dist.broadcast(tensor, 0)
        same(tensor, data(0, size))
    pairs = torch.complex(data(RANK), data(RANK, salt=1))
    dist._broadcast_coalesced(dist.group.WORLD, [pairs], 1 << 20, ROOT)
    same(pairs, torch.complex(data(ROOT), data(ROOT, salt=1)))
    pairs = torch.complex(data(RANK), data(RANK, salt=1))
    dist.reduce(pairs, ROOT)
    if RANK == ROOT:
        same(pairs, torch.complex(total(), total(salt=1)))
    tensor = data(RANK)
    dist.reduce(tensor, 0, dist.ReduceOp.MAX)
    if RANK == 0:
        same(tensor, torch.stack([data(rank) for rank in ALL]).amax(0))
    objects = [RANK, "text"]
    dist.broadcast_object_list(objects, ROOT)
    assert objects == [ROOT, "text"]
    store = dist.distributed_c10d._get_default_store()
    store.add("come", 1)
    dist.barrier()
    assert store.add("come", 0) == RANKS


def all_to_all():
    for dtype, size in CASES:
        got = torch.empty(RANKS * size, dtype=dtype)
        dist.all_to_all_single(got, data(RANK, RANKS * size, dtype))
        same(got, torch.cat([data(rank, RANKS * size, dtype)[RANK * size:RANK * size + size]
                             for rank in ALL]))
    # Rank a sends a + b elements to rank b; none from 0 to 0.
    sends, receives = [RANK + rank for rank in ALL], [rank + RANK for rank in ALL]
    got = torch.empty(sum(receives))
    dist.all_to_all_single(got, torch.cat([data(RANK, size, salt=rank)
                                           for rank, size in enumerate(sends)]), receives, sends)
    expected = [data(rank, size, salt=RANK) for rank, size in enumerate(receives)]
    same(got, torch.cat(expected))
    for dtype in EIGHTS:
        got = torch.empty(RANKS * 3, dtype=dtype)
        dist.all_to_all_single(got, data(RANK, RANKS * 3, dtype))
        same(got, torch.cat([data(rank, RANKS * 3, dtype)[RANK * 3:RANK * 3 + 3] for rank in ALL]))
    parts = [torch.empty(size) for size in receives]
    dist.all_to_all(parts, [data(RANK, size, salt=rank) for rank, size in enumerate(sends)])
    same(torch.cat(parts), torch.cat(expected))


def box(rank, other=0, last=False, size=2):
    """Of two ranks, and in one of two memory formats."""
    numbers = (torch.arange(48 * size) * (rank + 1) + 1000 * other).float().view(size, 3, 4, 4)
    return numbers.contiguous(memory_format=torch.channels_last) if last else numbers


def memory_formats():
    """Tensors of a list may lie differently; so may those of other ranks."""
    for odd in (0, 1):
        last = [(rank + odd) % 2 == 1 for rank in ALL]
        room = lambda sizes: [torch.empty_like(box(0, last=last[rank], size=sizes[rank])) for rank in ALL]
        for sizes in ([2] * RANKS, [rank + 1 for rank in ALL]):
            parts = room(sizes)
            for own in (False, True, RANK % 2 == 1):
                dist.all_gather(parts, box(RANK, last=own, size=sizes[RANK]))
                for rank, part in enumerate(parts):
                    same(part, box(rank, size=sizes[rank]))
                    part.zero_()
                part = torch.empty_like(box(0, last=own, size=sizes[RANK]))
                dist.reduce_scatter(part, [box(RANK, rank, last[rank], sizes[rank]) for rank in ALL])
                same(part, sum(box(rank, RANK, size=sizes[RANK]) for rank in ALL))
        for own in (False, True):
            parts = room([2] * RANKS)
            dist.gather(box(RANK, last=own), parts if RANK == ROOT else None, ROOT)
            if RANK == ROOT:
                same(torch.stack(parts), torch.stack([box(rank) for rank in ALL]))
            part = torch.empty_like(box(0, last=own))
            dist.scatter(part, [box(ROOT, rank, last[rank]) for rank in ALL] if RANK == ROOT else None,
                         ROOT)
            same(part, box(ROOT, RANK))
        parts = room([2] * RANKS)
        dist.all_to_all(parts, [box(RANK, rank, last[-1 - rank]) for rank in ALL])
        for rank, part in enumerate(parts):
            same(part, box(rank, RANK))
    weight = torch.nn.Parameter(box(RANK, last=True))
    parts = [torch.nn.Parameter(torch.empty_like(box(0))) for _ in ALL]
    dist.all_gather(parts, weight)
    for rank, part in enumerate(parts):
        same(part.detach(), box(rank))
        assert part.is_leaf


def coalesced():
    tensors = [data(RANK, size) for size in (5, 0, 3000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        same(tensor, total(tensor.numel()))
    tensors = [data(RANK, size) for size in (5, 3000)]
    dist.all_reduce_coalesced(tensors)
    wholes = [torch.empty(RANKS * size) for size in (5, 3000)]
    with dist._coalescing_manager(async_ops=True) as work:
        for whole in wholes:
            dist.all_gather_into_tensor(whole, data(RANK, whole.numel() // RANKS))
    work.wait()
    parts = [torch.empty(size) for size in (5, 3000)]
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, data(RANK, RANKS * part.numel()))
    for tensor, whole, part in zip(tensors, wholes, parts):
        size = tensor.numel()
        same(tensor, total(size))
        same(whole, gathered(size))
        same(part, total(RANKS * size)[RANK * size:RANK * size + size])
    # Of different kinds, among them one that goes through a copy.
    tensor, lists = data(RANK), [torch.empty(7) for _ in ALL]
    group, device = dist.group.WORLD, torch.device("cpu")
    group._start_coalescing(device)
    group.allreduce([tensor])
    group.allgather([lists], [data(RANK)])
    group._end_coalescing(device).wait()
    same(tensor, total())
    same(torch.cat(lists), gathered())


def within_another_groups():
    """A communicator is made while the calls of another group are collected."""
    other = dist.new_group()
    tensors = [data(RANK, salt=salt) for salt in range(3)]
    group, device = dist.group.WORLD, torch.device("cpu")
    group._start_coalescing(device)
    group.allreduce(tensors[:1])
    other.allreduce(tensors[1:2])
    group.allreduce(tensors[2:])
    group._end_coalescing(device).wait()
    dist.barrier(other)
    for salt, tensor in enumerate(tensors):
        same(tensor, total(salt=salt))


def messages():
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    for size in (0, 1, 2_000_000):
        got = torch.empty(size)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, data(RANK, size), after),
                                            dist.P2POp(dist.irecv, got, before)]):
            work.wait()
        same(got, data(before, size))
    for other in [1] if RANKS > 1 and RANK == 0 else [0] if RANK == 1 else []:
        got = torch.empty(7)
        if RANK == 0:
            dist.send(data(0), other)
            dist.recv(got, other)
        else:
            dist.recv(got, other)
            dist.send(data(1), other)
        same(got, data(other))
    refused(NotImplementedError, "recvAnysource", dist.recv, torch.empty(7))


def numbers_of_calls():
    """Which all ranks must have alike, though messages are calls of two."""
    number = dist.group.WORLD._get_backend(CPU)._get_sequence_number_for_group
    before = number()
    if RANK == 0 and RANKS > 2:
        dist.send(data(0), 1)
        dist.batch_isend_irecv([dist.P2POp(dist.isend, data(0), 1)] * 2)[0].wait()
    if RANK == 1 and RANKS > 2:
        dist.recv(torch.empty(7), 0)
        dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.empty(7), 0) for _ in "ab"])[0].wait()
    assert number() == before
    dist.all_reduce(data(RANK))
    assert number() == before + 1
    dist.all_reduce_coalesced([data(RANK), data(RANK)])
    with dist._coalescing_manager():
        dist.all_reduce(data(RANK))
    assert number() == before + 3


def compared_by_torch():
    """As all calls are with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    usual = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group()
    dist.set_debug_level(usual)
    assert not isinstance(group._get_backend(CPU), torch_hostnccl._C.HostGroup)
    tensor = data(RANK)
    if RANK == 0 and RANKS > 1:
        dist.send(tensor, 1, group)
    elif RANK == 1:
        dist.recv(torch.empty(7), 0, group)
    dist.all_reduce(tensor, group=group)
    same(tensor, total())


def asynchronous():
    tensors = [data(RANK, 1000, salt=salt) for salt in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    # A callback may wait for another call's future.
    last = works[-1].get_future()
    doubled = works[0].get_future().then(lambda _: last.wait()[0] * 2)
    for salt, (work, tensor) in enumerate(zip(works, tensors)):
        work.wait()
        assert work.is_completed() and work.is_success()
        same(tensor, total(1000, salt=salt))
        same(work.get_future().wait()[0], tensor)
    same(doubled.wait(), total(1000, salt=len(works) - 1) * 2)


def long_timeouts():
    """Of centuries, which are more nanoseconds than 64 bits hold."""
    ages = datetime.timedelta(days=300 * 365)
    group = dist.new_group()
    store, options, tensor = dist.distributed_c10d._get_default_store(), dist.AllreduceOptions(), data(RANK)
    options.timeout = ages
    dist.all_reduce(data(RANK), group=group)
    if RANK != 0:
        store.wait(["begun"])
        time.sleep(0.5)  # in which nothing is to happen
    work = group.allreduce([tensor], options)
    store.set("begun", "")
    work.wait(ages)
    same(tensor, total())


def met_again():
    """Another group in the store of one that is over finds nothing of it."""
    store = dist.PrefixStore("met", dist.distributed_c10d._get_default_store())
    for _ in range(3):
        dist.barrier()
        if RANK == 0:
            time.sleep(0.5)  # all others look for what it has to tell
        group = torch_hostnccl._C.create(store, RANK, RANKS, datetime.timedelta(seconds=60))
        tensor = data(RANK)
        group.allreduce([tensor]).wait()
        same(tensor, total())
        group.shutdown()


def groups():
    for members in [[0], list(ALL)[::2], list(ALL)[::-1]]:
        group = dist.new_group(members)
        if RANK in members:
            tensor = data(RANK)
            dist.all_reduce(tensor, group=group)
            same(tensor, sum(data(rank) for rank in members))
    if RANKS == 4:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        tensor = data(RANK)
        dist.all_reduce(tensor, group=mesh.get_group("shard"))
        same(tensor, data(RANK) + data(RANK ^ 1))
    whole = dist.group.WORLD
    halves = [[rank for rank in ALL if rank % 2 == odd] for odd in (0, 1)]
    if hasattr(whole, "split_group"):
        part = whole.split_group(halves[RANK % 2], group_name=f"half{RANK % 2}")
        tensor = data(RANK)
        part.allreduce([tensor]).wait()
        same(tensor, sum(data(rank) for rank in halves[RANK % 2]))
        assert part.rank() == RANK // 2


def refusals():
    grid = torch.zeros(4, 4)
    refused(ValueError, "contiguous", dist.all_reduce, grid[:, 1])
    refused(ValueError, "contiguous", dist.broadcast, grid[:, 1], 0)
    parts = [torch.zeros(4) for _ in ALL]
    refused(ValueError, "contiguous", dist.all_gather, [grid[:, 1] for _ in ALL], torch.zeros(4))
    refused(ValueError, "contiguous", dist.reduce_scatter, grid[:, 1], parts)
    refused(ValueError, "size", dist.all_gather, parts, torch.zeros(5))
    refused(ValueError, "size", dist.reduce_scatter, torch.zeros(5), parts)
    refused(ValueError, "ranks", dist.all_gather, [*parts, torch.zeros(4)], torch.zeros(4))
    refused(ValueError, "size", dist.all_gather_into_tensor, torch.empty(RANKS * 7 + 1), data(RANK))
    refused(ValueError, "size", dist.reduce_scatter_tensor, data(RANK), torch.empty(RANKS * 7 + 1))
    refused(TypeError, "type", dist.all_gather_into_tensor, torch.empty(RANKS * 7),
            data(RANK, dtype=torch.float64))
    refused(TypeError, "not supported", dist.all_reduce, torch.zeros(3, dtype=torch.int16))
    refused(TypeError, "AVG", dist.all_reduce, data(RANK, dtype=torch.bool), dist.ReduceOp.AVG)
    refused(TypeError, "as bytes", dist.all_reduce, torch.zeros(3, dtype=torch.float8_e5m2fnuz))
    refused(TypeError, "PreMulSum", dist.all_reduce, data(RANK, dtype=torch.int32),
            dist._make_nccl_premul_sum(2.0))
    refused(ValueError, "BOR", dist.all_reduce, data(RANK, dtype=torch.int32), dist.ReduceOp.BOR)
    rows = torch.zeros(1, 2 * RANKS)  # of as many elements as can be divided
    if RANKS > 1:
        refused(ValueError, "first dimension", dist.all_to_all_single, rows.view(-1), rows)
        refused(ValueError, "first dimension", dist.all_to_all_single, rows, rows.view(-1))


def refused_together():
    """Of calls that go out together none is made where one is refused."""
    group, options = dist.group.WORLD, dist.ReduceScatterOptions()
    options.reduceOp = dist.ReduceOp.AVG
    untouched = lambda size, dtype: torch.full((size,), 1, dtype=dtype)
    results = [untouched(7 * RANKS, torch.float32), untouched(7 * RANKS, torch.int16)]
    refused(TypeError, "not supported", group.allgather_into_tensor_coalesced, results,
            [torch.zeros(7), torch.zeros(7, dtype=torch.int16)])
    parts = [untouched(7, torch.float32), untouched(7, torch.bool)]
    refused(TypeError, "AVG", group.reduce_scatter_tensor_coalesced, parts,
            [torch.zeros(7 * RANKS), torch.zeros(7 * RANKS, dtype=torch.bool)], options)
    dist.barrier()
    for tensor in results + parts:
        same(tensor, untouched(len(tensor), tensor.dtype))


for part in (all_reduce, all_gather, reduce_scatter, rooted, all_to_all, memory_formats, coalesced,
             within_another_groups, messages, numbers_of_calls, compared_by_torch, asynchronous,
             long_timeouts, met_again, groups, refusals, refused_together):
    part()
    tensor = data(RANK)  # all goes on after it
    dist.all_reduce(tensor)
    same(tensor, total())
dist.destroy_process_group()
print("good")
