"""CUDA graphs."""

NAME = "capture"
TITLE = "terseAllReduce in CUDA graphs, two ranks on one GPU"


def run(context):
    return context.last_json(context.run_ranks(2, context.program("gpu_capture"), seconds=90), {})
