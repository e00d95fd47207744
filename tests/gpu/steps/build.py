"""Builds the preset `gpu`."""

import os

import machine
from context import Failed

NAME = "build"
TITLE = "with nvcc, for this machine's GPU"

# What cmake/dependencies.cmake asks for.
CARRIED = ("include/fmt/core.h", "include/CLI/App.hpp", "include/toml++/toml.h",
           "include/nlohmann/json.hpp", "googletest/src/gtest-all.cc")


def check_carried(folder):
    lacking = [part for part in CARRIED if not os.path.exists(os.path.join(folder, part))]
    if lacking:
        raise Failed(f"{folder} has no {', '.join(lacking)}; tests/gpu/carry fills it, where the "
                     "distribution's packages are")


def run(context):
    check_carried(os.path.join(machine.ROOT, "build", "carried"))
    compiler = machine.tool("nvcc")
    if compiler is None:
        raise Failed("there is no nvcc")
    context.run("cmake", "--preset", "gpu", "-B", context.build,
                f"-DCMAKE_CUDA_COMPILER={compiler}", seconds=60)
    context.run("cmake", "--build", context.build, "--parallel", os.cpu_count() or 2, seconds=400)
