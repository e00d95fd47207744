"""Weights and optimizer states that are gathered, and kept."""

import io

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_state_dict, set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, ROWS, USED = 64, 8, 64, 16


def full_tensors(seed, dtype):
    """DTensor's, of shards that are equal and that are not."""
    torch.manual_seed(seed)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return torch.cat([distribute_tensor(torch.randn(rows, 40).to(dtype), mesh, [Shard(dim)])
                      .full_tensor().flatten() for rows, dim in ((8, 0), (13, 0), (6, 1))])


def in_place(seed, dtype):
    """ZeRO-1's and ZeRO-2's weights, as DeepSpeed has them: an optimizer's own shard in fp32, from which the
    weights come that are gathered where they lie."""
    draw, ranks, rank = torch.Generator().manual_seed(seed), dist.get_world_size(), dist.get_rank()
    weights = torch.randn(ranks * 520, generator=draw).to(dtype)
    shard = weights.chunk(ranks)[rank]
    master = shard.float()
    optimizer = torch.optim.AdamW([master], lr=0.01)
    own = torch.Generator().manual_seed(ranks * seed + rank)
    for _ in range(3):
        gradients = torch.randn(len(weights), generator=own).to(dtype)
        mean = torch.empty_like(shard)
        dist.reduce_scatter_tensor(mean, gradients, op=dist.ReduceOp.AVG)
        master.grad = mean.float()
        optimizer.step()
        shard.copy_(master)
        dist.all_gather_into_tensor(weights, shard)
    return weights


class Sharded:
    """FSDP2 with AdamW; weights and the optimizer's states in one type."""

    def __init__(self, seed, dtype):
        torch.manual_seed(seed)
        self.dtype = dtype
        self.model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)).to(dtype)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for part in (self.model[0], self.model[2], self.model):
            fully_shard(part, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def train(self, begin, steps):
        """The losses on this rank's own samples."""
        losses = []
        for step in range(begin, begin + steps):
            draw = torch.Generator().manual_seed(100 * step + dist.get_rank())
            x = torch.randn(BATCH, WIDTH, generator=draw).to(self.dtype)
            self.optimizer.zero_grad()
            loss = (self.model(x) - x).float().square().mean()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def tensors(self):
        """By name, the shards of weights, and of the optimizer's states of them."""
        named, states = dict(self.model.named_parameters()), self.optimizer.state
        named |= {f"{name} {what}": state for name, param in named.items()
                  for what, state in states[param].items() if isinstance(state, DTensor)}
        return {name: tensor.detach().to_local().clone() for name, tensor in named.items()}

    def save(self):
        """The bytes of a checkpoint of the whole, on rank 0."""
        states, file = get_state_dict(self.model, self.optimizer, options=StateDictOptions(
            full_state_dict=True, cpu_offload=True)), io.BytesIO()
        if dist.get_rank() == 0:
            torch.save(states, file)
        return file.getvalue()

    def load(self, file):
        model, optimizer = torch.load(io.BytesIO(file)) if file else ({}, {})
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(self.model, model, options=options)
        set_optimizer_state_dict(self.model, self.optimizer, optimizer, options=options)


def resumed(seed, dtype):
    """What is wrong with a training that goes on from a full checkpoint."""
    first, second = Sharded(seed, dtype), Sharded(seed + 1, dtype)
    first.train(0, 4)
    second.train(0, 1)  # its optimizer has states
    second.load(first.save())
    saved, loaded = first.tensors(), second.tensors()
    losses, expected = second.train(4, 4), first.train(4, 4)
    wrong = {"a state that is not finite": not all(each.isfinite().all() for each in loaded.values()),
             "a negative square": any((each < 0).any() for name, each in loaded.items()
                                      if name.endswith("exp_avg_sq")),
             "a loss that is not finite": not torch.tensor(losses).isfinite().all()}
    if dtype == torch.float32:
        wrong |= {"another state": any(not torch.equal(saved[name], loaded[name]) for name in saved),
                  "another loss": losses[0] != expected[0]}
    return [what for what, is_so in wrong.items() if is_so]


def rows_without_gradients(seed, dtype):
    """Of an embedding, trained by Adam: how many have moved."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(ROWS, 24), nn.Linear(24, 7)).to(dtype)
    before = model[0].weight.detach()[USED:].clone()
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(seed + 1000 * dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        wrapped(torch.randint(0, USED, (BATCH,), generator=draw)).float().square().mean().backward()
        optimizer.step()
    return (model[0].weight[USED:] != before).any(1).nonzero().tolist()
