"""libterse over the real NCCL."""

NAME = "collectives"
TITLE = "libterse against a reference, two and four ranks on one GPU"


def run(context):
    return {f"{count} ranks": context.last_json(
        context.run_ranks(count, context.program("gpu_collectives"), seconds=90), {})
        for count in (2, 4)}
