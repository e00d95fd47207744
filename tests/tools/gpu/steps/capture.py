"""CUDA graphs."""

from context import Failed

NAME = "capture"
TITLE = "terseAllReduce in CUDA graphs, two ranks on one GPU"


def run(context):
    try:
        out = context.run_ranks(2, context.program("gpu_capture"), seconds=120)
    except Failed as failure:
        figures = failure.figures
        # The last test, of a capture mode that NCCL may not bear, is none to fail by.
        if figures.get("failures") != 0 or figures.get("global_mode") != "did not end":
            raise
        return {**figures, "global_mode": f"did not end: {failure}"}
    return context.last_json(out, {})
