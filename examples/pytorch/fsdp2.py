#!/usr/bin/env python3
"""Fully sharded training (FSDP2) whose weights and gradients travel compressed: AllGather and
ReduceScatter instead of DDP's AllReduce. Nothing here knows of terse.

    LD_PRELOAD=~/terse/lib/libterse_nccl.so TERSE_SCHEME=int8:round=stochastic \\
        torchrun --nproc-per-node 2 examples/pytorch/fsdp2.py

The weights that are computed with are gathered anew for each pass, in bf16; the optimizer's own, in
fp32, never travel. The ranks may share one GPU.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

INPUTS, HIDDEN, OUTPUTS, BATCH = 256, 2048, 64, 256


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


def start(backend):
    """This process's device; before NCCL's first call."""
    if backend == "hostnccl":
        import torch_hostnccl  # noqa: F401  by which torch knows it
        dist.init_process_group(backend)
        return torch.device("cpu")
    local, devices = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if int(os.environ["LOCAL_WORLD_SIZE"]) > devices:
        # NCCL takes two ranks on one GPU only if they seem to be on two hosts.
        os.environ.setdefault("NCCL_HOSTID", f"rank{os.environ['RANK']}")
    torch.cuda.set_device(local % devices)
    dist.init_process_group(backend)
    return torch.device("cuda", local % devices)


def shard(model, device):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in model:
        fully_shard(module, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def same_outputs(model, x):
    """Whether all ranks compute the same from the weights that they gathered."""
    with torch.no_grad():
        mine = model(x).double().sum().view(1)
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(others, mine)
    return all(torch.equal(mine, other) for other in others)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="end with a JSON object of all losses")
    parser.add_argument("--backend", choices=("nccl", "hostnccl"), default="nccl",
                        help="hostnccl: without a GPU")
    options = parser.parse_args()
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
    same = same_outputs(model, torch.ones(1, INPUTS, device=device))
    if rank == 0:
        print(json.dumps({"losses": losses, "same_everywhere": same}) if options.json else
              f"all ranks have the same results: {'yes' if same else 'NO'}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
