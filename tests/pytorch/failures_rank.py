"""One rank of four that see what goes wrong end in torch's errors: failures_rank.py. Rank 3 kills itself
at the end."""

import datetime
import os
import signal

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

SHORT = datetime.timedelta(seconds=2)

dist.init_process_group("hostnccl")
RANK = dist.get_rank()


def fails(text, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except dist.DistBackendError as error:
        assert text in str(error), f"{text!r} is not in {str(error)!r}"
    else:
        raise AssertionError(f"{call} did not fail with {text}")


def everyone(group=None):
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [4, 4, 4], tensor


def nobody_comes_at_all():
    group = dist.new_group(timeout=SHORT)
    if RANK != 2:
        fails("2 did not come", dist.all_reduce, torch.ones(3), group=group)


def somebody_is_late():
    """Its peers' calls end at the group's timeout; those that come later fail at once."""
    group = dist.new_group(timeout=SHORT)
    everyone(group)
    if RANK != 2:
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        fails("before timing out", work.wait)
        assert work.is_completed() and not work.is_success()
        fails("was aborted", dist.all_reduce, torch.ones(3), group=group)


def somebody_waits_no_longer():
    group = dist.new_group()
    everyone(group)
    if RANK != 2:
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
        fails("OpType=ALLREDUCE", work.wait, SHORT)


def aborted():
    group = dist.new_group()
    everyone(group)
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True) if RANK != 2 else None
    dist.barrier()
    group._get_backend(torch.device("cpu")).abort()
    if work is not None:
        fails("", work.wait)


def sizes_differ():
    group = dist.new_group()
    everyone(group)
    fails("NCCL error", dist.all_reduce, torch.ones(3 + RANK), group=group)


def somebody_dies():
    everyone()
    if RANK == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    fails("NCCL error", dist.all_reduce, torch.ones(3))


for part in (nobody_comes_at_all, somebody_is_late, somebody_waits_no_longer, aborted, sizes_differ,
             somebody_dies):
    everyone()
    part()
print("good", flush=True)
os._exit(0)  # no leaving in good order: the store is on rank 0, and a rank is gone
