"""A rank of several groups of trainings: several.py TRAINING GROUPS FOLDER

TRAINING is where bench/train's programs lie. Each group has "jobs"; their results go to its folder."""

import json
import os
import sys

sys.path.insert(0, sys.argv[1])
import checkpoint  # pylint: disable=wrong-import-position
import rank  # pylint: disable=wrong-import-position
from groups import train_each  # pylint: disable=wrong-import-position


def train(group, folder):
    results = []
    for job in group["jobs"]:
        training = rank.Training(job, folder)
        if job.get("resume"):
            checkpoint.load(training, job["resume"])
        results.append(training.run())
        if job.get("save"):
            checkpoint.save(training, job["save"])
    if training.rank == 0:
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(results, file)


with open(sys.argv[2], encoding="utf-8") as plan:
    train_each(json.load(plan), sys.argv[3], train)
