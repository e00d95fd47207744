"""The results as rows of text, for the screen and for the page."""

import os
import sys

from plan import NATIVE, TITLES

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "netlab"))
from units import format_rate  # pylint: disable=wrong-import-position

NOTES = (
    "validation: loss at the end, nats a byte, over the same text for all; mean of the seeds, and "
    "the 95 % confidence interval of that mean (Student's t). over native: relative difference to "
    "native of the same seed and steps, its mean and interval. Of a scheme count the seeds that "
    "native has, too; where they are fewer than native's, only \"over native\" and \"to a loss\", "
    "which take both from the same seeds, compare the two.",
    "Losses were computed on one machine without a limit to its links. The time of a step was "
    "measured apart, over a few steps, on links of the rate that is named, by the same program: "
    "losses against time are losses by step times that time. All ranks share this machine's cores.",
    "sent: bytes a step and host, by its network interface. to a loss: how much sooner than native "
    "the validation loss is reached that native has after 80 % of its steps.",
)


def percent(value, interval=None):
    if value is None:
        return "-"
    text = f"{100 * value:+.2f} %"
    return text if interval is None else f"{text} ±{100 * interval:.2f}"


def _loss(value, interval=None):
    if value is None:
        return "-"
    return f"{value:.4f}" if interval is None else f"{value:.4f} ±{interval:.4f}"


def _times(text, value):
    return "-" if value is None else text.format(value)


def rates(rows):
    return sorted({rate for row in rows.values() for rate in row.get("links", {})}, key=int,
                  reverse=True)


def header(rows):
    names = ["scheme", "seeds", "train", "validation", "over native"]
    for rate in rates(rows):
        name = format_rate(int(rate))
        names += [f"step at {name}", "faster", "to a loss", "sent", "fewer"]
    return names


def cells(scheme, row, links):
    found = [scheme, str(len(row.get("final_validation", ()))), _loss(row.get("train")),
             _loss(row.get("validation"), row.get("validation_interval")),
             "" if scheme == NATIVE else percent(row.get("over_native"),
                                                 row.get("over_native_interval"))]
    for rate in links:
        link = row.get("links", {}).get(rate, {})
        found += [_times("{:.0f} ms", link and 1e3 * link["step_seconds"] or None),
                  _times("{:.2f}x", link.get("faster")),
                  _times("{:.2f}x", link.get("faster_to_target")),
                  _times("{:.3f} MB", link and link["sent_bytes"] / 1e6 or None),
                  _times("{:.2f}x", link.get("bytes_factor"))]
    return found


def table(rows):
    """Of a way: the header and a line for each scheme."""
    links = rates(rows)
    return [header(rows), *(cells(scheme, row, links) for scheme, row in rows.items())]


def aligned(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(text.ljust(width) if column == 0 else text.rjust(width)
                      for column, (text, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines]


def text(summary):
    parts = []
    for way, rows in summary.items():
        lines = aligned(table(rows))
        parts += [f"{TITLES[way]}:", lines[0], "-" * len(lines[0]), *lines[1:], ""]
    return "\n".join([*parts, *NOTES])
