"""One rank whose futures' callbacks call collectives: futures_rank.py refused|ordered. Refused where the
program goes on beside a callback; in the program's order where get_future() waits."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

WAY = sys.argv[1]
if WAY == "ordered":
    os.environ["TORCH_HOSTNCCL_FUTURES_IN_ORDER"] = "1"

dist.init_process_group("hostnccl")
RANK, RANKS = dist.get_rank(), dist.get_world_size()


def total(value):
    """Of ranks that have value times their number, from 1 on."""
    return torch.full((1000,), float(value * RANKS * (RANKS + 1) // 2))


def mine(value):
    return torch.full((1000,), float(value * (RANK + 1)))


def refused():
    first, second = mine(1), mine(10)
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()  # there is a communicator, for which ranks wait for each other
    if RANK == 1:
        store.wait(["chained"])
    future = dist.all_reduce(first, async_op=True).get_future()
    if RANK == 0:  # whose future is not complete
        chained = future.then(lambda _: dist.all_reduce(second, async_op=True))
        store.set("chained", "")
        try:
            chained.wait()
        except RuntimeError as error:
            assert "TORCH_HOSTNCCL_FUTURES_IN_ORDER=1" in str(error), error
        else:
            raise AssertionError("a collective in a callback was not refused")
    future.wait()
    assert torch.equal(first, total(1)), first
    dist.all_reduce(second)
    assert torch.equal(second, total(10)), second


def chains_keep_the_programs_order():
    first, second, third = mine(1), mine(10), mine(100)
    if RANK == 1:
        time.sleep(1)
    chained = dist.all_reduce(first, async_op=True).get_future().then(
        lambda _: dist.all_reduce(second, async_op=True).get_future().wait()[0] * 2)
    dist.all_reduce(third)
    assert torch.equal(chained.wait(), total(10) * 2)
    assert torch.equal(third, total(100)), third


def powersgd_keeps_replicas_alike():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(6))),
                                    bucket_cap_mb=0.1)
    state = powerSGD_hook.PowerSGDState(process_group=None, start_powerSGD_iter=2,
                                        matrix_approximation_rank=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(1 + RANK)
    for _ in range(6):
        x = torch.randn(8, 128, generator=data)
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
    for old, parameter in zip(before, model.parameters()):
        held = [torch.empty_like(old) for _ in range(RANKS)]
        dist.all_gather(held, parameter.detach())
        assert all(torch.equal(each, held[0]) for each in held)
        assert not torch.equal(held[0], old)


if WAY == "refused":
    refused()
else:
    chains_keep_the_programs_order()
    powersgd_keeps_replicas_alike()
dist.destroy_process_group()
print("good")
