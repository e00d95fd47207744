"""Global-QSGD's quantizers (arXiv 2305.18627, section 4) as its authors have them: one scale for all
that a call averages, the greatest magnitude on any rank. As hooks of DDP that communicate natively:
what training loses counts here, not time. terse itself has a scale for each block."""

import math

import torch
import torch.distributed as dist

_BITS = 7  # of a code's magnitude; the eighth is its sign


class Linear:
    """Standard dithering: levels k/L of the scale, where the sum of all ranks' fits eight bits."""

    def __init__(self, ranks):
        self.ranks, self.levels = ranks, (2 ** _BITS - 1) // ranks

    def encode(self, values, scale, random):
        """Numbers of levels, each rounded at random to one of the two beside its value."""
        places = values * (self.levels / scale)
        draws = torch.rand(places.shape, generator=random)
        return torch.floor(places + draws).clamp(-self.levels, self.levels)

    def mean(self, codes, scale, _):
        """codes: of all ranks."""
        return torch.stack(codes).sum(0) * (scale / (self.levels * self.ranks))


class Exponential:
    """Exponential dithering: levels 2^-e of the scale and zero; codes are added pair by pair, a sum
    rounded at random to a level again."""

    def __init__(self, ranks):
        self.ranks, self.room = ranks, 2 * 2 ** math.ceil(math.log2(ranks))

    def encode(self, values, scale, random):
        """Signed levels: exact in floating point, for they are powers of two."""
        return _to_power(values / (self.room * scale), random)

    def mean(self, codes, scale, random):
        """codes: of all ranks; random: that draws the same on all of them."""
        while len(codes) > 1:
            pairs = zip(codes[::2], codes[1::2])
            alone = codes[len(codes) // 2 * 2:]
            codes = [_to_power(one + other, random) for one, other in pairs] + alone
        return codes[0] * (self.room * scale / self.ranks)


def _to_power(values, random):
    """To one of the two powers of two beside each value, unbiased; to zero below the smallest."""
    mantissa, exponent = torch.frexp(values.abs())
    up = torch.rand(values.shape, generator=random) < 2 * mantissa - 1
    exponent = torch.where(up, exponent, exponent - 1)
    level = torch.ldexp(torch.ones_like(values), exponent)
    return torch.where((values == 0) | (exponent < -(2 ** _BITS - 1)), 0, level) * values.sign()


QUANTIZERS = {"linear8": Linear, "exp8": Exponential}


def hook(name, seed):
    """For DistributedDataParallel.register_comm_hook."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    quantizer = QUANTIZERS[name](ranks)
    own = torch.Generator().manual_seed(seed * (ranks + 1) + rank)
    common = torch.Generator().manual_seed(seed * (ranks + 1) + ranks)

    def average(_, bucket):
        values = bucket.buffer()
        scale = values.abs().max()
        dist.all_reduce(scale, op=dist.ReduceOp.MAX)
        done = torch.futures.Future()
        if scale == 0:
            done.set_result(values)
            return done
        codes = [torch.empty_like(values) for _ in range(ranks)]
        dist.all_gather(codes, quantizer.encode(values, scale, own))
        done.set_result(quantizer.mean(codes, scale, common))
        return done
    return average
