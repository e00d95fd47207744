"""The perf programs, native and compressed."""

import contextlib
import dataclasses
import json
import os

import preload
import ranks
from context import Failed

NAME = "perf"
TITLE = "collectives of two ranks, native and compressed"

GOAL = 2.5  # native time over int8's, AllReduce of 64 MiB of fp32
RANKS = 2
SWEEP = ("-b", "1K", "-e", "64M", "-f", "4", "-n", "5", "-w", "2")
# Ranks that share a GPU take turns of milliseconds, at each of NCCL's kernels.
SHORT_SWEEP = ("-b", "64K", "-e", "64M", "-f", "32", "-n", "3", "-w", "1")


@dataclasses.dataclass
class Mode:
    arguments: tuple
    env: dict = dataclasses.field(default_factory=dict)
    preloaded: str = ""  # the scheme under the preload library
    least_ratio: float = 0  # of raw bytes to sent ones, 64 MiB of fp32


MODES = {"native": Mode(("-c", "1")),
         "int8": Mode(("--scheme", "int8"), least_ratio=3),
         "preload int8": Mode(("-c", "0"), preloaded="int8"),
         "int8, one chunk": Mode(("--scheme", "int8"), {"TERSE_CHUNK_BYTES": "64M"},
                                 least_ratio=3),
         "int4": Mode(("--scheme", "int4"), least_ratio=5.5)}
CASES = {("all_reduce", "float"): tuple(MODES),
         ("all_reduce", "bfloat16"): ("native", "int8", "int4"),
         ("all_gather", "float"): ("native", "int8", "preload int8"),
         ("reduce_scatter", "float"): ("native", "int8", "preload int8")}


def variables(context, mode):
    if not mode.preloaded:
        return contextlib.nullcontext(mode.env)
    return preload.preloaded(context, mode.preloaded, RANKS)


def measure(context, collective, dtype, mode):
    path = os.path.join(context.build, "perf.json")
    if os.path.exists(path):
        os.remove(path)
    sweep = SHORT_SWEEP if ranks.share_gpus(RANKS) else SWEEP
    with variables(context, mode) as env:
        context.run_ranks(RANKS, context.program(f"{collective}_perf"), *sweep, "-d", dtype,
                          "-J", path, *mode.arguments, seconds=90, env=env)
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    return [{"bytes": row["size"], "us": row["out_of_place"]["time"],
             "in_place_us": row["in_place"]["time"],
             "wrong": row["out_of_place"]["nwrong"],
             "error": row["out_of_place"]["relative_l2_error"],
             "wire_ratio": row["out_of_place"]["wire_ratio"]} for row in results]


def speed_ups(rows):
    """Over native, by mode, of the largest message."""
    largest = {name: measured[-1]["us"] for name, measured in rows.items()}
    return {name: round(largest["native"] / us, 2) for name, us in largest.items()
            if name != "native" and "native" in largest}


def run(context):
    # Shares of a GPU say what the turns cost, not what a network would gain.
    judged = not ranks.share_gpus(RANKS)
    figures, problems = {"judged": judged}, []
    for (collective, dtype), modes in CASES.items():
        name, rows = f"{collective} {dtype}", {}
        for mode in modes:
            try:
                rows[mode] = measure(context, collective, dtype, MODES[mode])
            except Failed as failure:
                problems.append(f"{name} {mode}: {failure}")
                continue
            ratio, least = rows[mode][-1]["wire_ratio"], MODES[mode].least_ratio
            if dtype == "float" and least and not (ratio or 0) > least:
                problems.append(f"{name} {mode}: {ratio} times fewer bytes, not {least}")
        ratios = speed_ups(rows)
        figures[name] = {**rows, "speed-up at 64 MiB": ratios}
        if "native" in rows:
            print(f"   {name} 64 MiB: native {rows['native'][-1]['us'] / 1e3:.1f} ms, "
                  + ", ".join(f"{mode} {ratio}x" for mode, ratio in ratios.items()), flush=True)
    reached = figures["all_reduce float"]["speed-up at 64 MiB"].get("int8", 0)
    if judged and reached < GOAL:
        problems.append(f"int8 AllReduce of 64 MiB is {reached}x as fast as native; "
                        f"the goal is {GOAL}x")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
