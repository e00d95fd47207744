"""A rank of several groups of trainings, one after the other: several.py TRAINING GROUPS FOLDER

TRAINING is where bench/train's programs lie. Each group has processes of its own, which are forked
when PyTorch has been read, for that takes longer than the trainings: {"scheme", "jobs"}."""

import json
import os
import sys

sys.path.insert(0, sys.argv[1])
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position

import checkpoint  # pylint: disable=wrong-import-position
import rank  # pylint: disable=wrong-import-position


def train(number, group):
    """Leaves results and terse's reports in a folder of the group's."""
    folder = os.path.join(sys.argv[3], str(number))
    os.makedirs(folder, exist_ok=True)
    os.environ.update(TERSE_REPORT=folder, TERSE_SEED="5")
    if group["scheme"] != "native":
        os.environ["TERSE_SCHEME"] = group["scheme"]
    results = []
    rank.start(init_method=f"file://{folder}/store", rank=int(os.environ["RANK"]),
               world_size=int(os.environ["WORLD_SIZE"]))
    for job in group["jobs"]:
        training = rank.Training(job, folder)
        if job.get("resume"):
            checkpoint.load(training, job["resume"])
        results.append(training.run())
        if job.get("save"):
            checkpoint.save(training, job["save"])
    dist.barrier()
    dist.destroy_process_group()
    if os.environ["RANK"] == "0":
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(results, file)


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        groups = json.load(file)
    torch.use_deterministic_algorithms(True)  # reads much of PyTorch, too
    for number, group in enumerate(groups):
        child = os.fork()
        if child == 0:
            train(number, group)
            return
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"group {number}, {group['scheme']}: {status}")


main()
