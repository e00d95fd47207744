"""A model whose messages show what is in them.

All values and all gradients of what is to stay exact are negative, those of the rest positive, and
padding is zero."""

import torch
from torch import nn

# By name, apart from the rule that is tested.
EXACT = ("norm", "bias", "gate")


def is_exact(name):
    return any(word in name for word in EXACT)


def sign(name):
    return -1.0 if is_exact(name) else 1.0


def add_up(x, module, *parts):
    """x and all elements of these parts, so that the gradient of each is its sign. By attributes, for
    what FSDP puts there need not be a parameter."""
    for part in parts:
        for kind in ("weight", "bias"):
            tensor = getattr(getattr(module, part), kind, None)
            if tensor is not None:
                x = x + sign(f"{part}.{kind}") * tensor.float().sum()
    return x


class Block(nn.Module):
    """Of odd sizes, which no number of ranks divides."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 3 * width)
        self.gate = nn.Linear(width, 5, bias=False)  # a matrix, but a small one
        self.outer = nn.Linear(3 * width, width)

    def forward(self, x):
        return add_up(x, self, "norm", "inner", "gate", "outer")


class Model(nn.Module):
    def __init__(self, width=37, blocks=2):
        super().__init__()
        self.embedding = nn.Embedding(101, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 101)
        with torch.no_grad():
            for name, param in self.named_parameters():
                param.copy_(sign(name) * (1 + torch.rand_like(param)))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return add_up(x, self, "embedding", "norm", "head")


def exact_elements(model):
    """How many there are, before the model is wrapped."""
    return sum(param.numel() for name, param in model.named_parameters() if is_exact(name))
