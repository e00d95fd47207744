"""One rank of four that see what goes wrong end in torch's errors: failures_rank.py. Rank 3 kills itself
at the end."""

import concurrent.futures
import datetime
import os
import re
import signal
import time

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

SHORT = datetime.timedelta(seconds=2)

dist.init_process_group("hostnccl")
RANK = dist.get_rank()
STORE = dist.distributed_c10d._get_default_store()


def connection():
    """Another one to the same server, for a thread that waits in one holds up all that use it."""
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def fails(text, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except dist.DistBackendError as error:
        assert re.search(text, str(error)), f"{text!r} is not in {str(error)!r}"
        return str(error)
    else:
        raise AssertionError(f"{call} did not fail with {text}")


def everyone(group=None):
    """Which all have done when it returns, so that nobody fails in it by what comes after it."""
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [4, 4, 4], tensor
    dist.barrier()


def nobody_comes_at_all():
    group = dist.new_group(timeout=4 * SHORT)  # within which all make the group
    if RANK != 2:
        fails("rank.*2.* did not come", dist.all_reduce, torch.ones(3), group=group)


def somebody_is_late():
    """Its peers' calls end at their timeout; those that come later fail at once."""
    group = dist.new_group()
    everyone(group)
    if RANK != 2:
        options = dist.AllreduceOptions()
        options.timeout = SHORT
        work = group.allreduce([torch.ones(3)], options)
        future = work.get_future()
        # The first one's end may end the others' before their own.
        late = fails(r"Timeout\(ms\)=2000", work.wait)
        fails(r"Timeout\(ms\)=2000", future.wait)
        STORE.add("late", "before timing out" in late)
        assert work.is_completed() and not work.is_success()
        fails("was aborted|NCCL error", dist.all_reduce, torch.ones(3), group=group)
    dist.barrier()
    assert STORE.add("late", 0) > 0


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


def ended_while_the_ranks_meet(how):
    """Nobody else waits for those who meet: they are told that there is no communicator yet, or end
    the group. It ends for all, when the last rank has come."""
    key, store = f"met/{how}", connection()
    group = torch_hostnccl._C.create(dist.PrefixStore(key, connection()), RANK, 4, 15 * SHORT)
    call = lambda: group.allreduce([torch.ones(3)]).wait()
    if RANK == 2:
        store.wait([f"{key}/ended/{rank}" for rank in (0, 1, 3)])
        fails("NCCL error", call)
        return
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        meeting = pool.submit(fails, f"its group was {how}", call)
        store.wait([f"{key}/group/0/arrived/{RANK}"])
        assert group._comm_ptr() == 0
        {"aborted": group.abort, "shut down": group.shutdown}[how]()
        store.set(f"{key}/ended/{RANK}", "")
        meeting.result()


def aborted_while_the_ranks_meet():
    ended_while_the_ranks_meet("aborted")


def shut_down_while_the_ranks_meet():
    ended_while_the_ranks_meet("shut down")


def sizes_differ():
    group = dist.new_group()
    everyone(group)
    fails("NCCL error", dist.all_reduce, torch.ones(3 + RANK), group=group)


def two_threads_call_first():
    """One waits for a message, which comes after what the other one calls."""
    group = dist.new_group([0, 1])
    if RANK > 1:
        return
    received = torch.zeros(4)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        if RANK == 0:
            waits = pool.submit(dist.recv, received, 1, group)
            time.sleep(0.5)
        dist.barrier(group)
        if RANK == 1:
            dist.send(torch.ones(4), 0, group)
        else:
            waits.result()
            assert received.tolist() == [1, 1, 1, 1], received


def somebody_dies():
    everyone()
    if RANK == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    fails("NCCL error", dist.all_reduce, torch.ones(3))


for part in (nobody_comes_at_all, somebody_is_late, somebody_waits_no_longer, aborted,
             aborted_while_the_ranks_meet, shut_down_while_the_ranks_meet, two_threads_call_first,
             sizes_differ, somebody_dies):
    everyone()
    part()
print("good", flush=True)
os._exit(0)  # no leaving in good order: the store is on rank 0, and a rank is gone
