"""The perf programs, native and compressed."""

import json
import os

from context import Failed

NAME = "perf"
TITLE = "collectives of two ranks on one GPU, native and compressed"

GOAL = 2.5  # native time over int8's, AllReduce of 64 MiB of fp32
SWEEP = ("-b", "1K", "-e", "64M", "-f", "4", "-n", "5", "-w", "2")
# Name, arguments, whether under the preload library, and its scheme.
MODES = (("native", ("-c", "1"), None),
         ("int8", ("--scheme", "int8"), None),
         ("int4", ("--scheme", "int4"), None),
         ("preload int8", ("-c", "0"), "int8"))


def measure(context, collective, dtype, arguments, preload):
    path = os.path.join(context.build, "perf.json")
    if os.path.exists(path):
        os.remove(path)
    env = {"LD_PRELOAD": context.library("libterse_nccl.so"), "TERSE_SCHEME": preload} \
        if preload else {}
    context.run_ranks(2, context.program(f"{collective}_perf"), *SWEEP, "-d", dtype, "-J", path,
                      *arguments, seconds=60, env=env)
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    return [{"bytes": row["size"], "us": row["out_of_place"]["time"],
             "in_place_us": row["in_place"]["time"],
             "wrong": row["out_of_place"]["nwrong"],
             "error": row["out_of_place"]["relative_l2_error"],
             "wire_ratio": row["out_of_place"]["wire_ratio"]} for row in results]


def run(context):
    figures, problems = {}, []
    for collective, dtype in (("all_reduce", "float"), ("all_reduce", "bfloat16"),
                              ("all_gather", "float"), ("reduce_scatter", "float")):
        rows = figures.setdefault(f"{collective} {dtype}", {})
        for name, arguments, preload in MODES:
            try:
                rows[name] = measure(context, collective, dtype, arguments, preload)
            except Failed as failure:
                problems.append(f"{collective} {dtype} {name}: {failure}")
                if name == "native":
                    break
        largest = {name: measured[-1]["us"] for name, measured in rows.items()}
        ratios = {name: round(largest["native"] / us, 2) for name, us in largest.items()
                  if name != "native" and "native" in largest}
        rows["speed-up at 64 MiB"] = ratios
        if "native" in largest:
            print(f"   {collective} {dtype} 64 MiB: native {largest['native'] / 1e3:.1f} ms, "
                  + ", ".join(f"{name} {ratio}x" for name, ratio in ratios.items()), flush=True)
    reached = figures["all_reduce float"]["speed-up at 64 MiB"].get("int8", 0)
    if reached < GOAL:
        problems.append(f"int8 AllReduce of 64 MiB is {reached}x as fast as native; "
                        f"the goal is {GOAL}x")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
