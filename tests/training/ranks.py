"""A rank of groups of trainings: ranks.py TRAINING FOLDER

TRAINING is where bench/train's programs lie. Each group is trained in a process of its own, which is
forked when PyTorch has been read, for that takes longer than the trainings; and when a test asks for it
(asked.py): FOLDER/0 is there, then FOLDER/1 and so on, each with {"program", "groups", "folder"}, until
there is FOLDER/end. A group's files and its report go to its number in its folder. FOLDER/0.done1 says
that rank 1 has done all of FOLDER/0; what fails ends the rank."""

import itertools
import json
import os
import sys
import time

TRAINING, FOLDER = sys.argv[1:3]
sys.path[:0] = [TRAINING, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                       "tools")]
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position

import forked  # pylint: disable=wrong-import-position
import rank  # pylint: disable=wrong-import-position
import spikes  # pylint: disable=wrong-import-position
import trainings  # pylint: disable=wrong-import-position

PROGRAMS = {"trainings": trainings.train, "spikes": spikes.train}


def asked():
    """Each request, when it is there, and the name of its file."""
    for number in itertools.count():
        path = os.path.join(FOLDER, str(number))
        while not os.path.exists(path):
            if os.path.exists(os.path.join(FOLDER, "end")):
                return
            time.sleep(0.01)
        with open(path, encoding="utf-8") as file:
            yield path, json.load(file)


def train(group, folder, program):
    os.makedirs(folder, exist_ok=True)
    os.environ.update(TERSE_REPORT=folder, TERSE_SEED="5", **group.get("environment", {}))
    if group["rules"] != "native":
        os.environ["TERSE_SCHEME"] = group["rules"]
    rank.start(init_method=f"file://{folder}/store", rank=int(os.environ["RANK"]),
               world_size=int(os.environ["WORLD_SIZE"]))
    program(group, folder)
    dist.barrier()
    dist.destroy_process_group()


def main():
    torch.use_deterministic_algorithms(True)  # reads much of PyTorch, too
    forked.keep_all()
    for path, request in asked():
        for number, group in enumerate(request["groups"]):
            child = os.fork()
            if child == 0:
                train(group, os.path.join(request["folder"], str(number)),
                      PROGRAMS[request["program"]])
                forked.leave()
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit(f"group {number}, {group['scheme']}: {status}")
        with open(f"{path}.done{os.environ['RANK']}", "w", encoding="utf-8"):
            pass


main()
