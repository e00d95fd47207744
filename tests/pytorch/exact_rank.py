"""One of four ranks that keep exact what is sent of a model: exact_rank.py. FSDP2 beside tensor
parallelism, under a scheme that compresses all calls."""

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import terse
import terse.torch

WIDTH = 512

dist.init_process_group("hostnccl")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("shards", "parts"))
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
whole = {name: param.detach().clone() for name, param in model.named_parameters()}
parallelize_module(model[0], mesh["parts"], ColwiseParallel())
fully_shard(model, mesh=mesh["shards"])


def gathered():
    return {name: param.full_tensor() for name, param in model.named_parameters()}


# Before any call the groups have no communicators.
with terse.torch.exact(model):
    inside = gathered()
for name, param in whole.items():
    assert torch.equal(inside[name], param), name
outside = gathered()
assert not torch.equal(outside["1.weight"], whole["1.weight"])
assert not torch.equal(outside["0.weight"], whole["0.weight"])
try:
    with terse.torch.exact([]):
        pass
except terse.Error as error:
    assert "pauses nothing" in str(error), error
else:
    raise AssertionError("no model is no group")
dist.destroy_process_group()
print("good")
