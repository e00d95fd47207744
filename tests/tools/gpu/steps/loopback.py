"""Fused kernels of several ranks, which are streams of one GPU."""

from . import parity

NAME = "loopback"
TITLE = "fused calls of ranks that share the GPU, byte for byte"


def run(context):
    return parity.run_tests(context, "gpu_loopback_test", 240)
