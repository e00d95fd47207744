"""What is measured: one Case for each collective, input and data type, under each scheme."""

import dataclasses
import os

MIB = 1 << 20
GRADIENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data",
                        "gradient_rank{rank}.f32")
TYPES = {"fp32": ("float", 4), "fp16": ("half", 2), "bf16": ("bfloat16", 2)}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
GRADIENT_RANKS = 4
NATIVE = "native"


@dataclasses.dataclass(frozen=True)
class Case:
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


def format_size(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"


def bus_factor(collective, hosts):
    """How often each byte of the buffer crosses each link, as nccl-tests counts."""
    return (2 if collective == "all_reduce" else 1) * (hosts - 1) / hosts


def gradient_size(collective, dtype, hosts):
    elements = os.path.getsize(GRADIENT.format(rank=0)) // 4
    shares = hosts if collective == "all_gather" else 1
    return elements * shares * TYPES[dtype][1]


def cases(options):
    """The gradient is left out for more hosts than it was sampled on."""
    found = []
    for collective in options.collectives:
        for dtype in options.dtypes:
            if options.hosts <= GRADIENT_RANKS:
                found.append(Case(collective, "gradient", dtype,
                                  gradient_size(collective, dtype, options.hosts)))
            found += [Case(collective, "gauss", dtype, size) for size in options.sizes]
    return found


def iterations(case, scheme, options):
    """As many as fit into the time for one measurement, in and out of place."""
    rate = options.rate or 10**10
    seconds = case.size * 8 * bus_factor(case.collective, options.hosts) / rate
    if scheme != NATIVE:
        seconds /= 2
    return max(2, min(200, int(options.seconds / 2 / (seconds + 0.002))))
