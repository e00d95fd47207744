"""libterse over the real NCCL."""

import machine
import ranks
from context import Failed

NAME = "collectives"
TITLE = "libterse against a reference, two and four ranks on one GPU"

# Four on one GPU wait long for each other.
RUNS = {2: (), 4: ("--quick",)}
# Ranks of one node, whose calls are one kernel each, in memory that CUDA IPC opens.
FUSED = {"TERSE_FUSE": "shared", "TERSE_NODE": "one node"}


def runs(context):
    """(name, ranks, arguments, variables) of each."""
    for count, arguments in RUNS.items():
        yield f"{count} ranks", count, arguments, None
        yield f"{count} ranks, fused", count, ("--quick",), FUSED
    if ranks.can_share_on_one_host(2, machine.nccl_version(context.nccl)):
        yield "2 ranks of one host", 2, ("--quick",), ranks.SHARED_GPU_OF_ONE_HOST


def run(context):
    figures, problems = {}, []
    for name, count, arguments, variables in runs(context):
        try:
            out = context.run_ranks(count, context.program("gpu_collectives"), *arguments,
                                    seconds=120, env=variables)
            figures[name] = context.last_json(out, {})
        except Failed as failure:
            figures[name] = failure.figures
            problems.append(f"{name}: {failure}")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
