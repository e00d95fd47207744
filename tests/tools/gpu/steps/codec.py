"""The codec's speed."""

import json

import machine
from context import Failed

NAME = "codec"
TITLE = "encode, decode and reduce, as a share of the device's own copy"

LARGE = 64 << 20  # bytes: smaller ones are a matter of launching, for the copy too


def measured(text):
    """The rows that were printed whole."""
    rows = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return rows


def with_shares(rows):
    """Of the copy, which is measured before the others of its size and after: of the faster one."""
    copies = {}
    for row in rows:
        if row["operation"] == "copy":
            size = row["dtype"], row["bytes"]
            copies[size] = max(copies.get(size, 0), row["GB/s"])
    return [row if row["operation"] == "copy" else
            {**row, "share": round(row["GB/s"] / copies[row["dtype"], row["bytes"]], 3)}
            for row in rows]


def below_the_goal(rows):
    return [f"{row['operation']} {row['scheme']} {row['dtype']} {row['bytes'] >> 20} MiB "
            f"{row['share']:.2f}" for row in rows
            if row["bytes"] >= LARGE and row.get("share", 1) < row.get("goal", 0)]


def show(rows):
    for row in rows:
        share = f"{row['share']:5.2f}" if "share" in row else ""
        print(f"   {row['operation']:10} {row.get('scheme', ''):16} {row['dtype']} "
              f"{row['bytes'] >> 20:4} MiB {row['us']:9.1f} us {row['GB/s']:7.0f} GB/s {share}"
              f"{' in the cache' if row.get('cache_resident') else ''}".rstrip(), flush=True)


def run(context):
    problems = []
    before = machine.clocks()
    try:
        text = context.run(context.program("gpu_codec_bench"), seconds=150)
    except Failed as failure:  # what was measured before it stays
        text = failure.output
        problems.append(str(failure))
    after = machine.clocks()
    rows = with_shares(measured(text))
    show(rows)
    slow = below_the_goal(rows)
    if slow:
        problems.append("below the goal: " + ", ".join(slow))
    figures = {"clocks before": before, "clocks after": after, "rows": rows}
    if not rows and not problems:
        problems.append("nothing was measured")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
