"""What a training needs to go on: a file for each rank."""

import os

import torch


def _path(folder, rank):
    return os.path.join(folder, f"rank{rank}.pt")


def save(training, folder):
    os.makedirs(folder, exist_ok=True)
    every = training.recipe["validate_every"]  # what came at this end belongs to no other training
    state = {"way": training.way.state(), "losses": training.losses,
             "validation": [point for point in training.validation if point[0] % every == 0],
             "step": len(training.losses)}
    torch.save(state, _path(folder, training.rank))


def load(training, folder):
    state = torch.load(_path(folder, training.rank), weights_only=True)
    training.way.load(state["way"])
    training.losses, training.validation = state["losses"], state["validation"]
    training.begin = state["step"]
