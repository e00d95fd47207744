"""Trainings of a group, one after the other: its "jobs", whose results go to its folder."""

import json
import os

import checkpoint
import rank


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
