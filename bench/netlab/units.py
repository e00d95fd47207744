"""Rates as tc writes them."""

import argparse
import re

# Slower, it shows that tc rounds to whole bytes a second, and then a burst is less than a packet;
# faster, a burst is more than tc takes.
_SLOWEST, _FASTEST = 10**3, 10**13
_UNITS = {"": 1, "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def parse_rate(text):
    """'1gbit' -> 1000000000 bits a second; '0' and 'none' mean no limit and give 0."""
    if text.lower() == "none":
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", text.lower())
    if not match or match[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a rate (examples: 100mbit, 1gbit, 0)")
    rate = float(match[1]) * _UNITS[match[2]]
    if rate and not _SLOWEST <= rate <= _FASTEST:
        raise argparse.ArgumentTypeError(f"'{text}' cannot be shaped: rates are from 1kbit to "
                                         "10000gbit, and 0 for no limit")
    return int(rate)


def format_rate(bits_per_second):
    if not bits_per_second:
        return "unlimited"
    for unit, name in ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s")):
        if bits_per_second >= unit:
            return f"{bits_per_second / unit:g} {name}"
    return f"{bits_per_second} bit/s"
