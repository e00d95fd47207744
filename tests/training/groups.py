"""Groups of trainings, one after the other, each in a process of its own, which is forked when PyTorch
has been read, for that takes longer than the trainings."""

import os
import sys

import torch
import torch.distributed as dist

import rank

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import forked  # pylint: disable=wrong-import-position


def train_each(groups, folder, train):
    """groups: [{"scheme", "rules", ...}]; train(group, folder) on each of the ranks that this program is
    one of. Terse's reports are left in the group's folder."""
    torch.use_deterministic_algorithms(True)  # reads much of PyTorch, too
    forked.keep_all()
    for number, group in enumerate(groups):
        child = os.fork()
        if child == 0:
            _train(group, os.path.join(folder, str(number)), train)
            forked.leave()
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"group {number}, {group['scheme']}: {status}")


def _train(group, folder, train):
    os.makedirs(folder, exist_ok=True)
    os.environ.update(TERSE_REPORT=folder, TERSE_SEED="5", **group.get("environment", {}))
    if group["rules"] != "native":
        os.environ["TERSE_SCHEME"] = group["rules"]
    rank.start(init_method=f"file://{folder}/store", rank=int(os.environ["RANK"]),
               world_size=int(os.environ["WORLD_SIZE"]))
    train(group, folder)
    dist.barrier()
    dist.destroy_process_group()
