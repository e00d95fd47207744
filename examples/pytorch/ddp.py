#!/usr/bin/env python3
"""Data-parallel training (DDP) whose gradients travel compressed. Nothing here knows of terse: the
preload library sees the calls that PyTorch makes to NCCL.

    LD_PRELOAD=~/terse/lib/libterse_nccl.so TERSE_SCHEME=safe \\
        torchrun --nproc-per-node 2 examples/pytorch/ddp.py

Without the two variables the same run is native; both print the loss as it falls. The ranks may share
one GPU, or have none (--backend hostnccl).
"""

import json

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common import arguments, same_everywhere, start

INPUTS, HIDDEN, OUTPUTS, BATCH = 256, 2048, 64, 256


def network(hidden=HIDDEN):
    return torch.nn.Sequential(
        torch.nn.Linear(INPUTS, hidden), torch.nn.GELU(),
        torch.nn.Linear(hidden, hidden), torch.nn.GELU(),
        torch.nn.Linear(hidden, OUTPUTS))


def main():
    options = arguments(__doc__)
    device = start(options.backend)
    rank = dist.get_rank()

    torch.manual_seed(0)  # the same weights and the same task on every rank
    task = torch.nn.Linear(INPUTS, OUTPUTS).to(device)
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    data = torch.Generator(device=device).manual_seed(1 + rank)  # other samples on each

    losses = []
    for step in range(options.steps):
        x = torch.randn(BATCH, INPUTS, device=device, generator=data)
        with torch.no_grad():
            y = torch.tanh(task(x))
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)  # one number: too small to be compressed
        losses.append(mean.item())
        if rank == 0 and step % 20 == 0:
            print(f"step {step:4}  loss {losses[-1]:.5f}", flush=True)
    same = same_everywhere(model.parameters())
    if rank == 0:
        print(json.dumps({"losses": losses, "same_everywhere": same}) if options.json else
              f"all ranks have the same weights: {'yes' if same else 'NO'}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
