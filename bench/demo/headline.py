#!/usr/bin/env python3
"""The picture of the README: time of one AllReduce, native and compressed, out of a JSON of bench/run.

    bench/demo/headline.py bench/results/hosts-1gbit.json >docs/images/allreduce.svg"""

import json
import sys

TYPES = (("fp32", "fp32"), ("bf16", "bf16"))
SCHEMES = (("native", "native", "native"), ("int8", "8 bits", "int8"), ("int4", "4 bits", "int4"))
WIDTH, LEFT, BAR, GAP, TOP = 760, 118, 22, 18, 52

STYLE = """<style>
text{font-family:Helvetica,Arial,sans-serif;font-size:14px;fill:#24292f}
.title{font-size:15px;font-weight:bold}.small{font-size:12px;fill:#57606a}
.native{fill:#8c959f}.int8{fill:#2f7ed8}.int4{fill:#0b5fa5}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9da7b3}
.native{fill:#6e7681}.int8{fill:#4c9cf0}.int4{fill:#79b8ff}}
</style>"""


def seconds(rows, kind, scheme):
    found = [row["seconds"] for row in rows
             if (row["hosts"], row["ranks_per_host"], row["collective"], row["type"], row["bytes"],
                 row["scheme"]) == (4, 1, "all_reduce", kind, 64 << 20, scheme)]
    return found[0]


def draw(results):
    rows = results["rows"]
    longest = max(seconds(rows, kind, "native") for kind, _ in TYPES)
    scale = (WIDTH - LEFT - 130) / longest
    parts, y = [], TOP
    for kind, label in TYPES:
        native = seconds(rows, kind, "native")
        parts.append(f'<text x="8" y="{y + 1.75 * BAR:.0f}">{label}</text>')
        for scheme, name, style in SCHEMES:
            taken = seconds(rows, kind, scheme)
            end = LEFT + taken * scale
            factor = "" if scheme == "native" else f", {native / taken:.1f}x"
            parts.append(f'<text class="small" x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
                         f'<rect class="{style}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" '
                         f'height="{BAR - 4}" rx="2"/>'
                         f'<text x="{end + 6:.1f}" y="{y + 14}">{1000 * taken:.0f} ms{factor}</text>')
            y += BAR
        y += GAP
    hardware = results["hardware"]
    foot = (f"Four simulated hosts, links of 1 Gbit/s, on {hardware['cores']} cores of an {hardware['cpu']}, "
            f"{results['date'][:10]}. No GPU.")
    height = y + 14
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="Time of one AllReduce of 64 MiB">', STYLE,
        '<text class="title" x="8" y="22">One AllReduce of 64 MiB: shorter is better</text>', *parts,
        f'<text class="small" x="8" y="{height - 8}">{foot}</text>', "</svg>", ""])


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(draw(json.load(file)))
