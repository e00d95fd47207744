"""A small convolutional net over bytes: causal convolutions that reach ever further back, as in ByteNet
(arXiv 1610.10099, section 3)."""

from torch import nn
from torch.nn import functional

from .loss import BYTES

_TAPS = 3


class Block(nn.Module):
    def __init__(self, width, reach):
        super().__init__()
        self.past = reach * (_TAPS - 1)
        self.norm = nn.LayerNorm(width)
        self.conv = nn.Conv1d(width, 2 * width, _TAPS, dilation=reach)
        self.outer = nn.Conv1d(2 * width, width, 1)

    def forward(self, x):
        y = functional.pad(self.norm(x).transpose(1, 2), (self.past, 0))
        return x + self.outer(functional.gelu(self.conv(y))).transpose(1, 2)


class ConvNet(nn.Module):
    def __init__(self, layers, width, context):
        """context: no block reaches further back."""
        super().__init__()
        self.bytes = nn.Embedding(BYTES, width)
        reaches = [reach for reach in (1, 3, 9, 27) if reach * (_TAPS - 1) < context]
        self.blocks = nn.ModuleList(Block(width, reaches[layer % len(reaches)])
                                    for layer in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)
        nn.init.normal_(self.bytes.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, x):
        x = self.bytes(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
