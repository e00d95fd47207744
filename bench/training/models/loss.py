"""What all models are trained for: the next byte."""

from torch.nn import functional

BYTES = 256


def loss_of(logits, targets):
    return functional.cross_entropy(logits.float().view(-1, BYTES), targets.reshape(-1))
