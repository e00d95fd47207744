"""The steps of tests/gpu/run, in order. Each has a NAME, a TITLE and run(context), which returns
figures for the report or raises Failed or NotRun."""

from . import build, capture, codec, collectives, nccl_tests, parity, perf, pytorch, sanitizer

STEPS = [build, parity, collectives, capture, codec, perf, nccl_tests, pytorch, sanitizer]
