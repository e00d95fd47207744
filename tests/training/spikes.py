"""A training whose loss is infinite on rank 1 at some steps.

PyTorch's gradient scaler has to see that on all ranks, whatever compresses the gradients. Each rank
leaves what became of each step in its group's folder."""

import json
import math
import os

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import replicas
from models import build, loss_of

STEPS, SPIKES = 8, (0, 1, 4)  # the first call of each kind, from which levels are learned, among them


def sharded(model):
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WAYS = {"ddp": DistributedDataParallel, "fsdp2": sharded}


def local(param):
    return param.to_local() if hasattr(param, "to_local") else param


def train(group, folder):
    torch.manual_seed(5)
    number = torch.distributed.get_rank()
    model = WAYS[group["way"]](build(group["model"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    draw = torch.Generator().manual_seed(number)
    inputs = torch.randint(0, 256, (2, group["model"]["context"]), generator=draw)
    steps = []
    for step in range(STEPS):
        before = replicas.digest(map(local, model.parameters()))
        loss = loss_of(model(inputs), inputs)
        spike = math.inf if step in SPIKES and number == 1 else 1.0
        scaler.scale(loss * spike).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        after = replicas.digest(map(local, model.parameters()))
        steps.append({"loss": loss.item(), "scale": scaler.get_scale(),
                      "skipped": before == after, "weights": after})
    with open(os.path.join(folder, f"spikes{number}.json"), "w", encoding="utf-8") as file:
        json.dump(steps, file)
