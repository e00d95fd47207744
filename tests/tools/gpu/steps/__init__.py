"""The steps of tests/gpu/run, what matters most first. Each has a NAME, a TITLE and run(context),
which returns figures for the report or raises Failed or NotRun."""

from . import build, capture, codec, collectives, loopback, nccl_tests, parity, perf, pytorch, sanitizer

STEPS = [build, parity, loopback, sanitizer, capture, collectives, codec, perf, nccl_tests, pytorch]


def chosen(only, skipped, built):
    """In order; `only` may be None. Where nothing is built yet, that comes first."""
    names = {step.NAME for step in STEPS if not only or step.NAME in only}
    if not built:
        names.add(build.NAME)
    return [step for step in STEPS if step.NAME in names and step.NAME not in skipped]
