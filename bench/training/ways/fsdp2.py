"""PyTorch's FSDP2, block by block: weights are gathered for each pass, gradients reduced and
scattered. The optimizer's own weights, fp32 shards, never travel."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from .optimizer import adamw, step


class Fsdp2:
    def __init__(self, model, recipe):
        self.clip = recipe["clip"]
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        policy = MixedPrecisionPolicy(param_dtype=getattr(torch, recipe["weights"]),
                                      reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        self.model = fully_shard(model, mesh=mesh, mp_policy=policy)
        self.optimizer = adamw(self.model.parameters(), recipe)

    def step(self, inputs, targets, rate):
        return step(self.model, self.optimizer, rate, self.clip, (inputs, targets))

    def finish(self):
        pass

    def forward(self, inputs):
        return self.model(inputs)

    def shards(self):
        """The weights as they come by the next AllGather."""
        found, ranks = [], dist.get_world_size()
        for module in self.model.modules():
            if not isinstance(module, FSDPModule):
                continue
            module.unshard()
            inner = {id(param) for child in module.modules()
                     if child is not module and isinstance(child, FSDPModule)
                     for param in child.parameters()}
            for param in module.parameters():
                if id(param) not in inner:
                    found += [(owner, part.detach().clone())
                              for owner, part in enumerate(param.chunk(ranks))]
            module.reshard()
        return found

    def state(self):
        local = {name: param.to_local() for name, param in self.model.state_dict().items()}
        moments = [{key: value.to_local() if hasattr(value, "to_local") else value
                    for key, value in self.optimizer.state[param].items()}
                   for param in self.model.parameters()]
        return {"model": local, "optimizer": moments}

    def load(self, state):
        with torch.no_grad():
            for name, param in self.model.named_parameters():
                param.to_local().copy_(state["model"][name])
            for param, moments in zip(self.model.parameters(), state["optimizer"]):
                self.optimizer.state[param] = {
                    key: _like(param, value) for key, value in moments.items()}


def _like(param, value):
    """A moment of a sharded parameter, from this rank's part of it; the number of steps as it is."""
    if value.dim() == 0:
        return value
    whole = torch.zeros_like(param)
    whole.to_local().copy_(value)
    return whole
