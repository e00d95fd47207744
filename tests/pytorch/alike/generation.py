"""Tokens that all ranks draw from one distribution, with one prompt and one seed."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from .decisions import gathered

TOKENS, WIDTH, LENGTH, END = 96, 32, 24, 0


class Language(nn.Module):
    """The logits of the next token, by the last one and what came before."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mixing = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS)
        nn.init.normal_(self.head.weight, std=0.5)

    def forward(self, token, state):
        state = torch.tanh(self.embedding(token) + self.mixing(state))
        return self.head(state), state


def drawn(logits, at):
    """The token at this place of the distribution, of each row."""
    return (logits.float().softmax(1).cumsum(1) < at[:, None]).sum(1).clamp(max=TOKENS - 1)


@torch.no_grad()
def texts(seeds, model, dtype, logits_of=lambda logits: logits):
    """For each seed the tokens up to the end. All seeds are rows of one batch."""
    places = torch.stack([torch.rand(LENGTH, generator=torch.Generator().manual_seed(seed))
                          for seed in seeds])
    token, state = torch.ones(len(seeds), dtype=torch.long), torch.zeros(len(seeds), WIDTH, dtype=dtype)
    written = []
    for step in range(LENGTH):
        logits, state = model(token, state)
        token = drawn(logits_of(logits), places[:, step])
        written.append(token)
    return [text[:text.index(END)] if END in text else text
            for text in torch.stack(written, 1).tolist()]


def by_gathered_weights(seeds, dtype):
    """FSDP2's: every layer's weights are gathered for every token."""
    torch.manual_seed(0)
    model, mesh = Language(), init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    for part in (*model.children(), model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    return texts(seeds, model, dtype)


def by_gathered_logits(seeds, dtype):
    """A head whose vocabulary is split: each rank has the logits of its part."""
    torch.manual_seed(0)
    model, ranks = Language().to(dtype), dist.get_world_size()

    def whole(logits):
        part = logits.chunk(ranks, 1)[dist.get_rank()]
        return torch.cat(gathered(part).chunk(ranks), 1)

    return texts(seeds, model, dtype, whole)
