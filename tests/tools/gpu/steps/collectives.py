"""libterse over the real NCCL."""

from context import Failed

NAME = "collectives"
TITLE = "libterse against a reference, two and four ranks on one GPU"

# Four on one GPU wait long for each other.
RUNS = {2: (), 4: ("--quick",)}


def run(context):
    figures, problems = {}, []
    for count, arguments in RUNS.items():
        name = f"{count} ranks"
        try:
            out = context.run_ranks(count, context.program("gpu_collectives"), *arguments,
                                    seconds=120)
            figures[name] = context.last_json(out, {})
        except Failed as failure:
            figures[name] = failure.figures
            problems.append(f"{name}: {failure}")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
