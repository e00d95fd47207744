#!/usr/bin/env python3
"""Fully sharded training (FSDP2) whose weights and gradients travel compressed: AllGather and
ReduceScatter instead of DDP's AllReduce. Nothing here knows of terse.

    LD_PRELOAD=~/terse/lib/libterse_nccl.so TERSE_SCHEME=safe \\
        torchrun --nproc-per-node 2 examples/pytorch/fsdp2.py

The weights that are computed with are gathered anew for each pass, in bf16; the optimizer's own, in
fp32, never travel. The ranks may share one GPU. At the end it says whether all ranks have the same
results: they have, but with own=exact.
"""

import json

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from common import arguments, same_everywhere, start

INPUTS, HIDDEN, OUTPUTS, BATCH = 256, 2048, 64, 256
OTHERWISE = "no, which is right with own=exact alone: own shards are exact"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.inner = torch.nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.inner(self.norm(x)))


def network():
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), Block(), Block(),
                               torch.nn.Linear(HIDDEN, OUTPUTS))


def shard(model, device):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in model:
        fully_shard(module, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def main():
    options = arguments(__doc__)
    device = start(options.backend)
    rank = dist.get_rank()

    torch.manual_seed(0)  # the same weights and the same task on every rank
    task = torch.nn.Linear(INPUTS, OUTPUTS).to(device)
    model = network().to(device)
    shard(model, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    data = torch.Generator(device=device).manual_seed(1 + rank)  # other samples on each

    losses = []
    for step in range(options.steps):
        x = torch.randn(BATCH, INPUTS, device=device, generator=data)
        with torch.no_grad():
            y = torch.tanh(task(x))
        loss = torch.nn.functional.mse_loss(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)  # one number: too small to be compressed
        losses.append(mean.item())
        if rank == 0 and step % 20 == 0:
            print(f"step {step:4}  loss {losses[-1]:.5f}", flush=True)
    # Under random rounding each gathering draws anew; all ranks must draw the same.
    with torch.no_grad():
        same = same_everywhere([model(torch.ones(1, INPUTS, device=device))])
    if rank == 0:
        print(json.dumps({"losses": losses, "same_everywhere": same}) if options.json else
              f"all ranks have the same results: {'yes' if same else OTHERWISE}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
