"""What is measured: one Case for each lab, collective, input and data type, under each scheme."""

import dataclasses
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from placement import MOST_HOSTS, MOST_RANKS, Placement  # pylint: disable=wrong-import-position

MIB = 1 << 20
GRADIENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data",
                        "gradient_rank{rank}.f32")
TYPES = {"fp32": ("float", 4), "fp16": ("half", 2), "bf16": ("bfloat16", 2)}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
GRADIENT_RANKS = 4
NATIVE = "native"
# Timed calls. One of them may take longer than it should: of two it would be half of the mean.
FEWEST_NATIVE, FEWEST, MOST = 3, 6, 200
WARM_UP = 1
_UNTIMED = WARM_UP + 2  # one before those that are timed, and one that is compared
LABS = (Placement(4), Placement(2, 4))


@dataclasses.dataclass(frozen=True)
class Defaults:
    """Of a lab, where the options do not say otherwise."""
    collectives: tuple
    dtypes: tuple
    sizes: tuple  # of the synthetic buffers
    schemes: tuple


_BOTH = ("fp32", "bf16")
_SCHEMES = ("int8", "int4", "auto:error=0.12")
_SHARED_SCHEMES = ("int8", "int4", "int4:intra=int8,hadamard=32", "auto:error=0.12")
# By extent: where a host has one rank, and where it has several.
QUICK, USUAL, ALL = "quick", "usual", "all"
_DEFAULTS = {
    QUICK: (Defaults(("all_reduce",), ("fp32",), (MIB, 16 * MIB), _SCHEMES),
            Defaults(("all_reduce",), ("fp32",), (16 * MIB,), _SHARED_SCHEMES)),
    USUAL: (Defaults(("all_reduce",), _BOTH, (MIB, 64 * MIB), _SCHEMES),
            Defaults(("all_reduce",), ("fp32",), (64 * MIB,), _SHARED_SCHEMES)),
    ALL: (Defaults(COLLECTIVES, _BOTH, (MIB, 64 * MIB), _SCHEMES),
          Defaults(COLLECTIVES, _BOTH, (64 * MIB,), _SHARED_SCHEMES)),
}


@dataclasses.dataclass(frozen=True)
class Case:
    lab: Placement
    collective: str
    data: str  # "gradient" or "gauss"
    dtype: str
    size: int  # bytes of the larger buffer

    @property
    def name(self):
        return f"{self.collective} {self.data} {self.dtype} {format_size(self.size)}"


def parse_size(text):
    units = {"K": 1 << 10, "M": MIB, "G": 1 << 30}
    unit = units.get(text[-1:].upper())
    number = text[:-1] if unit else text
    if not number.isdigit():
        raise ValueError(f"'{text}' is not a size (examples: 512K, 16M)")
    return int(number) * (unit or 1)


def parse_lab(text):
    """'2x4' -> 2 hosts of 4 ranks; '1x4' one of 4, which share memory; '4' is 4x1."""
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", text)
    hosts, ranks = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
    if not 1 <= hosts <= MOST_HOSTS or ranks > MOST_RANKS or hosts * ranks < 2:
        raise ValueError(f"'{text}' is no lab of at most {MOST_HOSTS} hosts of at most {MOST_RANKS} "
                         "ranks (examples: 4x1, 2x4, 1x4)")
    return Placement(hosts, ranks)


def format_size(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"


def bus_factor(collective, ranks):
    """How often each byte of the buffer crosses each link, as nccl-tests counts: by a ring, which
    leaves a host once, however many ranks it has."""
    return (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks


def gradient_size(collective, dtype, ranks):
    elements = os.path.getsize(GRADIENT.format(rank=0)) // 4
    shares = ranks if collective == "all_gather" else 1
    return elements * shares * TYPES[dtype][1]


def defaults(lab, options):
    alone, shared = _DEFAULTS[options.extent]
    return shared if lab.ranks_per_host > 1 else alone


def schemes(lab, options):
    return options.schemes or defaults(lab, options).schemes


def collectives(lab, options):
    return options.collectives or defaults(lab, options).collectives


def dtypes(lab, options):
    return options.dtypes or defaults(lab, options).dtypes


def cases(lab, options):
    """The gradient is left out for more ranks than it was sampled on."""
    sizes = options.sizes or defaults(lab, options).sizes
    found = []
    for collective in collectives(lab, options):
        for dtype in dtypes(lab, options):
            if lab.ranks <= GRADIENT_RANKS:
                found.append(Case(lab, collective, "gradient", dtype,
                                  gradient_size(collective, dtype, lab.ranks)))
            found += [Case(lab, collective, "gauss", dtype, size)
                      for size in sizes]
    return found


def _call_seconds(case, rate):
    """Of a native call on links of this rate."""
    return case.size * 8 * bus_factor(case.collective, case.lab.ranks) / rate


def iterations(case, scheme, options):
    """As many as fit into the time for one measurement, and not too few for a mean."""
    seconds, fewest = _call_seconds(case, options.rate or 10**10), FEWEST_NATIVE
    if scheme != NATIVE:
        seconds, fewest = seconds / 2, FEWEST
    return max(fewest, min(MOST, int(options.seconds / (seconds + 0.002))))


def patience(seconds):
    """For how long a program that should take so many seconds may make no progress: what the perf
    programs and the tuner take for themselves, and more where they have much to do."""
    return min(300 + int(4 * seconds), 1 << 20)


def program_seconds(case, scheme, options):
    """What a program takes, native or not, if its links are the slowest of its parts, or do no more
    than 1 Gbit/s."""
    rate = min(options.rate or 10**9, 10**9)
    return (iterations(case, scheme, options) + _UNTIMED) * _call_seconds(case, rate)
