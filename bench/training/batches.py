"""Windows of the text. Which they are depends on the seed, the step and the rank alone, so that a
training that goes on from a checkpoint sees what it would have seen."""

import os

import torch


class Text:
    def __init__(self, folder, context):
        self.context = context
        self._parts = {name: _read(os.path.join(folder, f"{name}.bytes"))
                       for name in ("train", "validation")}

    def train(self, seed, step, rank, size):
        draw = torch.Generator().manual_seed(((seed * 1000003 + step) * 1009 + rank) % 2**62)
        data = self._parts["train"]
        return self._windows(data, torch.randint(len(data) - self.context, (size,), generator=draw))

    def validation(self, rank, ranks, windows):
        """This rank's of ranks times `windows` ones, equally far apart: the same at any time, for any
        seed, scheme and way."""
        data = self._parts["validation"]
        last = len(data) - self.context - 1
        places = torch.linspace(0, last, ranks * windows, dtype=torch.float64).long()
        return self._windows(data, places[rank::ranks])

    def _windows(self, data, places):
        rows = torch.stack([data[place:place + self.context + 1] for place in places.tolist()])
        return rows[:, :-1].long(), rows[:, 1:].long()


def _read(path):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
