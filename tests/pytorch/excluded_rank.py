"""One of two ranks that train with DDP, of which exclude_norms was called once: excluded_rank.py. A gradient
that travels as it is, is the mean of the ranks' own, bit by bit."""

import copy
import os
import sys

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401
from torch.nn.parallel import DistributedDataParallel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(ROOT + "/python")
import terse.models  # noqa: E402

WIDTH, BATCH = 64, 8

dist.init_process_group("hostnccl")
RANK = dist.get_rank()
GLOO = dist.new_group(backend="gloo")


class Network(torch.nn.Module):
    """Whose gradients come in another order than its parameters are registered in."""

    def __init__(self):
        super().__init__()
        self.outer, self.inner = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(self.norm(x))))


class Trained:
    def __init__(self, **options):
        torch.manual_seed(0)
        self.model = DistributedDataParallel(Network(), bucket_cap_mb=0.02, **options)
        self.draw = torch.Generator().manual_seed(1 + RANK)

    def loss(self, model):
        x = torch.randn(BATCH, WIDTH, generator=self.draw)
        return (model(x) - x).square().mean()

    def step(self):
        """The names of the parameters whose gradients are rounded."""
        self.model.zero_grad()
        expected, drawn = copy.deepcopy(self.model.module), self.draw.get_state()
        self.loss(expected).backward()
        self.draw.set_state(drawn)
        self.loss(self.model).backward()
        rounded = []
        for (name, param), other in zip(self.model.module.named_parameters(), expected.parameters()):
            mean = other.grad / 2
            dist.all_reduce(mean, group=GLOO)
            if not torch.equal(param.grad, mean):
                rounded.append(name)
        return rounded


MATRICES = ["outer.weight", "inner.weight"]


def in_every_step(**options):
    """Before and behind the step in which the buckets are formed anew."""
    training = Trained(**options)
    excluded = terse.models.exclude_norms(training.model)
    assert sum(message.elements for message in excluded) == sum(
        param.numel() for param in training.model.parameters())
    for number in range(4):
        rounded = training.step()
        assert rounded == MATRICES, (number, rounded)
        if RANK == 0 and number == 0:  # which asks for no other rank
            with torch.no_grad():
                training.model.module(torch.zeros(1, WIDTH))
    hooks = training.model.module._forward_pre_hooks
    assert not hooks, hooks


def the_last_call_counts():
    training = Trained()
    terse.models.exclude_norms([training.model])
    for _ in range(2):
        terse.models.exclude_norms([[training.model]], lambda name, shape: name == "inner.weight")
        rounded = training.step()
        assert "inner.weight" not in rounded and len(rounded) == 5, rounded
    assert training.step() == rounded


def in_join(steps):
    """A rank that has but one step, or none, and then as many as the other one."""
    training = Trained()
    terse.models.exclude_norms(training.model)
    with training.model.join():
        for _ in range(steps[RANK]):
            training.loss(training.model).backward()
            training.model.zero_grad()
    for _ in range(2):
        rounded = training.step()
        assert rounded == MATRICES, rounded


in_every_step()
in_every_step(find_unused_parameters=True)
in_every_step(static_graph=True)
the_last_call_counts()
in_join((3, 1))
in_join((2, 0))
dist.destroy_process_group()
print("good")
