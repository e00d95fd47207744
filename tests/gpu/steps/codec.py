"""The codec's speed."""

import json

from context import Failed

NAME = "codec"
TITLE = "encode, decode and reduce, as a share of the device's own copy"


def run(context):
    out = context.run(context.program("gpu_codec_bench"), seconds=120)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    slow = []
    for row in rows:
        if "share" not in row:
            print(f"   copy {row['dtype']} {row['bytes'] >> 20:4} MiB {row['GB/s']:7.0f} GB/s")
            continue
        print(f"   {row['operation']:8} {row['scheme']:16} {row['dtype']} "
              f"{row['bytes'] >> 20:4} MiB {row['us']:9.1f} us {row['GB/s']:7.0f} GB/s "
              f"{row['share']:5.2f}")
        # Small ones are a matter of launching, for the copy too.
        if row["bytes"] >= 64 << 20 and row["share"] < row["goal"]:
            slow.append(f"{row['operation']} {row['scheme']} {row['dtype']} "
                        f"{row['bytes'] >> 20} MiB {row['share']:.2f}")
    if not rows:
        raise Failed("nothing was measured")
    if slow:
        raise Failed("below the goal: " + ", ".join(slow), {"rows": rows})
    return {"rows": rows}
