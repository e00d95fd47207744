"""A small GPT over bytes: blocks with norms in front."""

import math

import torch
from torch import nn
from torch.nn import functional

from .loss import BYTES


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def attend(self, x):
        rows, length, width = x.shape
        query, key, value = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                             for part in self.attention(x).split(width, dim=2))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(mixed.transpose(1, 2).reshape(rows, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_attention(x))
        return x + self.outer(functional.gelu(self.inner(self.norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.bytes = nn.Embedding(BYTES, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                narrow = math.sqrt(2 * layers) if name.endswith(("_out.weight", "outer.weight")) else 1
                nn.init.normal_(param, std=0.02 / narrow)
            elif name.endswith("bias"):
                nn.init.zeros_(param)

    def forward(self, x):
        x = self.bytes(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
