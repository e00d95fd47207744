"""The kernels under compute-sanitizer."""

import machine
from context import Failed, NotRun

NAME = "sanitizer"
TITLE = "memcheck and racecheck on a short parity test"

UNSUPPORTED = "Device not supported"  # by compute-sanitizer: as in some sandboxes


def run(context):
    tool = machine.tool("compute-sanitizer")
    if tool is None:
        raise NotRun("there is no compute-sanitizer")
    figures, problems = {}, []
    for check in ("memcheck", "racecheck"):
        try:
            out = context.run(tool, "--tool", check, "--error-exitcode", 9,
                              context.program("gpu_parity_test"), "--gtest_filter=Short.*",
                              seconds=120)
            figures[check] = next((line.strip("= ") for line in reversed(out.splitlines())
                                   if "SUMMARY" in line), "no summary")
        except Failed as failure:
            if UNSUPPORTED in failure.output:
                raise NotRun(f"compute-sanitizer: {UNSUPPORTED}") from failure
            problems.append(f"{check}: {failure}")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
