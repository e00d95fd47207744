"""One rank of two replicas of a model that is split by tensor parallelism between two ranks each:
parallel_rank.py megatron|fsdp2|fsdp1|ddp [not]. Replicas are on two nodes. Excludes, unless `not`, by a rule
that asks for nothing. Prints, as JSON, of what both ranks of a replica hold alike

    differing   elements that have other bits after some steps
    alike       how many there are
    all, exact  elements of the messages, and those that were excluded"""

import json
import os
import sys

WAY, RANK = sys.argv[1], int(os.environ["RANK"])
REPLICA, PART = divmod(RANK, 2)
os.environ["NCCL_HOSTID"] = f"host {REPLICA}"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_hostnccl  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel, RowwiseParallel, parallelize_module)
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [ROOT + "/examples/pytorch", ROOT + "/python"]
import terse.models  # noqa: E402

STEPS, WIDTH, BATCH = 4, 128, 8


def nothing(name, shape):
    """A rule; what is replicated stays exact all the same."""
    del name, shape
    return False


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.outer = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))


class Plain:
    """PyTorch's own ways."""

    def __init__(self):
        dist.init_process_group("hostnccl")
        self.mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "parts"))
        torch.manual_seed(0)
        # The first and the last layer are on all ranks, and not split.
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Block(), Block(), nn.Linear(WIDTH, WIDTH))
        self.split = ("inner.weight", "inner.bias", "outer.weight")
        for block in model[1:3]:
            parallelize_module(block, self.mesh["parts"],
                               {"inner": ColwiseParallel(), "outer": RowwiseParallel()})
        self.model = self.wrap(model, self.mesh["replicas"])
        # Later DDP's named parameters are fewer.
        self.names = [name for name, _ in self.model.named_parameters()]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = torch.Generator().manual_seed(1 + REPLICA)

    def wrap(self, model, mesh):
        if WAY == "fsdp2":
            for part in (*model[1:3], model):
                fully_shard(part, mesh=mesh)
            return model
        if WAY == "fsdp1":
            return FullyShardedDataParallel(model, device_mesh=mesh, use_orig_params=True,
                                            device_id=torch.device("cpu"))
        return DistributedDataParallel(model, device_mesh=mesh)

    def train(self, steps):
        for _ in range(steps):
            x = torch.randn(BATCH, WIDTH, generator=self.data)
            self.optimizer.zero_grad()
            (self.model(x) - x).square().mean().backward()
            self.optimizer.step()

    def alike(self):
        """What the ranks of a replica hold alike."""
        for name, param in zip(self.names, self.optimizer.param_groups[0]["params"]):
            if not name.endswith(self.split):
                yield param.to_local() if hasattr(param, "to_local") else param


class Megatron:
    def __init__(self):
        import megatron_gpt

        megatron_gpt.start("hostnccl")
        self.model, self.optimizer = megatron_gpt.build(False, parts=2)
        self.train = lambda steps: megatron_gpt.train(self.model, self.optimizer, steps)

    def alike(self):
        for param in self.model.module.parameters():
            if not getattr(param, "tensor_model_parallel", False):
                yield param


def differing(tensors):
    """Of how many elements the ranks of a replica have other bits, and of how many."""
    mine = torch.cat([tensor.detach().float().flatten() for tensor in tensors])
    held = [torch.empty_like(mine) for _ in range(4)]
    dist.all_gather(held, mine, group=dist.new_group(backend="gloo"))
    return sum(int((held[k] != held[k + 1]).sum()) for k in (0, 2)), mine.numel()


def main():
    way = Megatron() if WAY == "megatron" else Plain()
    result = {}
    if sys.argv[2:] != ["not"]:
        messages = terse.models.exclude_norms(way.model, nothing)
        result["all"] = sum(message.elements for message in messages)
        result["exact"] = sum(count for message in messages for _, count in message.ranges)
    way.train(STEPS)
    result["differing"], result["alike"] = differing(way.alike())
    dist.destroy_process_group()
    print(json.dumps(result))


main()
