"""Builds what the steps need of the preset `gpu`, with ninja or, without it, make."""

import os
import re
import shutil

import machine
from context import Failed

NAME = "build"
TITLE = "with nvcc, for this machine's GPU"

# What cmake/dependencies.cmake asks for.
CARRIED = ("include/fmt/core.h", "include/CLI/App.hpp", "include/toml++/toml.h",
           "include/nlohmann/json.hpp", "googletest/src/gtest-all.cc")
TARGETS = ("terse", "terse_nccl", "terse_cuda", "gpu_parity_test", "gpu_loopback_test",
           "gpu_collectives", "gpu_capture", "gpu_codec_bench", "all_reduce_perf", "all_gather_perf",
           "reduce_scatter_perf")


def check_carried(folder):
    lacking = [part for part in CARRIED if not os.path.exists(os.path.join(folder, part))]
    if lacking:
        raise Failed(f"{folder} has no {', '.join(lacking)}; tests/gpu/carry fills it, where the "
                     "distribution's packages are")


def errors(text):
    """The first parts of it that say what is wrong."""
    wrong = re.compile(r"^FAILED:|^CMake Error|\b(error|fatal)\b[^./]*:|undefined reference")
    lines = text.splitlines()
    # CMake says what on the lines that follow.
    found = [" ".join(map(str.strip, lines[at:at + (4 if line.startswith("CMake") else 1)]))
             for at, line in enumerate(lines) if wrong.search(line)]
    return [part.strip()[:500] for part in found[:8]]


def warnings(text):
    """ptxas's among them: of registers that are spilled."""
    return [line[:500] for line in text.splitlines() if "warning" in line][:20]


def generator():
    """(what CMake is told, what keeps on building after a failure)"""
    if shutil.which("ninja"):
        return (), ("-k", "0")
    return ("-G", "Unix Makefiles"), ("-k",)


def run(context):
    check_carried(os.path.join(machine.ROOT, "build", "carried"))
    compiler = machine.tool("nvcc")
    if compiler is None:
        raise Failed("there is no nvcc")
    architectures = ";".join(machine.architectures()) or "native"
    figures = {"architectures": architectures}
    kind, keep_going = generator()
    try:
        context.run("cmake", "--preset", "gpu", *kind, "-B", context.build,
                    f"-DCMAKE_CUDA_COMPILER={compiler}",
                    f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", seconds=60)
        # As much as can be: the other steps test what there is.
        out = context.run("cmake", "--build", context.build,
                          "--parallel", len(os.sched_getaffinity(0)),
                          "--target", *TARGETS, "--", *keep_going, seconds=300)
    except Failed as failure:
        figures["errors"] = errors(failure.output)
        figures["warnings"] = warnings(failure.output)
        raise Failed("; ".join(figures["errors"]) or str(failure), figures) from failure
    return {**figures, "warnings": warnings(out)}
