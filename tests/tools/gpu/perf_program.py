"""One run of a perf program, as two ranks."""

import json
import os

from context import Failed

RANKS = 2
SECONDS = 40  # as long as a run may take


def measure(context, collective, dtype, *arguments, env):
    """[a row for each size, ...]"""
    path = os.path.join(context.build, "perf.json")
    if os.path.exists(path):
        os.remove(path)
    context.run_ranks(RANKS, context.program(f"{collective}_perf"), "-d", dtype, "-J", path,
                      *arguments, seconds=SECONDS, env=env)
    try:
        with open(path, encoding="utf-8") as file:
            results = json.load(file)["results"]
    except (OSError, ValueError) as error:
        raise Failed(f"it left no results: {error}") from error
    return [{"bytes": row["size"], "us": row["out_of_place"]["time"],
             "in_place_us": row["in_place"]["time"],
             "wrong": row["out_of_place"]["nwrong"],
             "error": row["out_of_place"]["relative_l2_error"],
             "wire_ratio": row["out_of_place"]["wire_ratio"]} for row in results]
