"""One of the ranks that train together: rank.py JOB FOLDER

Rank 0 leaves result.json in the folder. netlab starts the ranks."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401  by which torch knows the backend

import checkpoint
import dithering
import replicas
import schedule
from batches import Text
from health import Health
from models import build, loss_of
from ways import WAYS

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(_HERE)), "python"))
import terse.models  # pylint: disable=wrong-import-position


class Training:
    def __init__(self, job, folder):
        self.job, self.recipe, self.folder = job, job["recipe"], folder
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.text = Text(job["text"]["folder"], job["model"]["context"])
        torch.manual_seed(job["seed"])
        model = build(job["model"])
        drawn = replicas.digest(model.parameters())
        self.parameters = sum(param.numel() for param in model.parameters())
        self.way = WAYS[job["way"]](model, self.recipe)
        if job["way"] == "ddp" and drawn != replicas.digest(model.parameters()):
            raise RuntimeError("the weights that DDP begins with are not those that were drawn")
        if job.get("dithering"):
            self.way.model.register_comm_hook(None, dithering.hook(job["dithering"], job["seed"]))
        if job.get("exact_norms"):
            terse.models.exclude_norms(self.way.model)
        self.losses, self.validation, self.begin = [], [], 0
        self.health = Health(self.recipe["steps"])

    def step(self, step):
        recipe = self.recipe
        inputs, targets = self.text.train(self.job["seed"], step, self.rank, recipe["batch"])
        rate = schedule.rate(step, recipe["steps"], recipe["rate"])
        # As numbers: small tensors that stay would keep PyTorch's memory from being used again.
        self.losses.append(self.way.step(inputs, targets, rate).item())

    def validate(self, windows):
        """The mean loss over the same windows of the text at any time, shared out to the ranks."""
        with torch.no_grad():
            inputs, targets = self.text.validation(self.rank, self.ranks, windows)
            rows = [loss_of(self.way.forward(x), y)
                    for x, y in zip(inputs.split(16), targets.split(16))]
        return self._mean(torch.stack(rows).double().mean())

    def _mean(self, values):
        """Over the ranks; in double precision, which is never compressed."""
        values = values.double()
        dist.all_reduce(values)
        return (values / self.ranks).tolist()

    def run(self):
        recipe = self.recipe
        end = self.job.get("until") or recipe["steps"]
        for step in range(self.begin, end):
            self.step(step)
            self.health.look(step + 1)
            if (step + 1) % recipe["validate_every"] == 0 and step + 1 < end:
                self.validation.append([step + 1, self.validate(recipe["windows"])])
            if self.rank == 0 and (step + 1) % 50 == 0:
                print(f"step {step + 1} of {end}, loss {self.losses[-1]:.4f}", flush=True)
        if end == recipe["steps"]:
            self.way.finish()
        final = self.validate(recipe["last_windows"])
        self.validation.append([end, self.validate(recipe["windows"])])
        return {"losses": self._mean(torch.tensor(self.losses)), "validation": self.validation,
                "final_validation": final, "parameters": self.parameters,
                "replicas": replicas.compare(self.way.shards())}

    def measure(self, first, count):
        """The time of each of `count` steps, and the bytes that a host sends in one."""
        for step in range(first):
            self.step(step)
        dist.barrier()
        before, times = _sent(), []
        for step in range(first, first + count):
            start = time.perf_counter()
            self.step(step)
            times.append(time.perf_counter() - start)
        dist.barrier()
        sent = self._mean(torch.tensor((_sent() - before) / count))
        return {"step_seconds": times, "sent_bytes": sent,
                "losses": self._mean(torch.tensor(self.losses))}


def _sent():
    """Bytes that have left this host by its network interface; of all hosts where there is but the
    loopback interface."""
    with open("/proc/self/net/dev", encoding="ascii") as table:
        counts = {name.strip(): int(numbers.split()[8]) for name, _, numbers in
                  (line.partition(":") for line in table) if numbers}
    return counts.get("eth0", counts["lo"])


def start(**meeting):
    """meeting: where the ranks meet, by init_process_group's keywords; without any, as torchrun's
    variables say."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("hostnccl", **meeting)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    start()
    training = Training(job, sys.argv[2])
    if job.get("resume"):
        checkpoint.load(training, job["resume"])
    result = training.measure(*job["measure"]) if job.get("measure") else training.run()
    if job.get("save"):
        checkpoint.save(training, job["save"])
    if training.rank == 0:
        path = os.path.join(sys.argv[2], "result.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({**result, "torch": torch.__version__,
                       "health": training.health.points}, file)
        os.replace(path + ".part", path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
