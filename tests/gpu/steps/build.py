"""Builds the preset `gpu`."""

import os

import machine
from context import NotRun

NAME = "build"
TITLE = "with nvcc, for this machine's GPU"


def run(context):
    if not os.path.isdir(os.path.join(machine.ROOT, "build", "carried")):
        raise NotRun("there is no build/carried; tests/gpu/carry fills it")
    compiler = machine.tool("nvcc")
    if compiler is None:
        raise NotRun("there is no nvcc")
    context.run("cmake", "--preset", "gpu", "-B", context.build,
                f"-DCMAKE_CUDA_COMPILER={compiler}", seconds=60)
    context.run("cmake", "--build", context.build, "--parallel", os.cpu_count() or 2, seconds=400)
