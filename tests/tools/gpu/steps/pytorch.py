"""PyTorch under the preload library."""

import importlib.util
import os
import sys

import machine
import preload
import ranks
from context import Failed, NotRun

NAME = "pytorch"
TITLE = "DDP and FSDP2 training, native and under the preload library"

RANKS = 2
STEPS = 30
SCHEMES = {"ddp": "int8", "fsdp2": "int8:round=stochastic"}


def train(context, example, env):
    # Not under torchrun, whose workers outlive it when it is ended.
    out = context.run_ranks(RANKS, sys.executable,
                            os.path.join(machine.ROOT, "examples", "pytorch", f"{example}.py"),
                            "--steps", STEPS, "--json", seconds=120, env=env)
    return context.last_json(out, {})


def train_compressed(context, example, scheme):
    # Ranks that share a GPU take turns at each of NCCL's kernels: few of them.
    chunks = {"TERSE_CHUNK_BYTES": "16M"} if ranks.share_gpus(RANKS) else {}
    with preload.preloaded(context, scheme, RANKS) as variables:
        return train(context, example, {**variables, **chunks, "TERSE_LOG": "info"})


def compare(native, compressed):
    """Complaints."""
    first, last = native["losses"][0], native["losses"][-1]
    if not last < 0.5 * first:
        yield f"the native run does not learn: loss {first:.4g} to {last:.4g}"
    if not abs(compressed["losses"][-1] - last) < 0.1 * last + 0.01 * first:
        yield f"loss {compressed['losses'][-1]:.4g} compressed, {last:.4g} native"
    if compressed["losses"] == native["losses"]:
        yield "the same losses to the last bit: nothing was compressed"
    if not compressed["same_everywhere"]:
        yield "the ranks' parameters differ"


def run(context):
    if importlib.util.find_spec("torch") is None:
        raise NotRun("there is no PyTorch")
    figures, problems = {}, []
    for example, scheme in SCHEMES.items():
        kept = figures[example] = {"scheme": scheme}  # what was measured before a failure, too
        try:
            native = kept["native"] = train(context, example, {})
            compressed = kept["compressed"] = train_compressed(context, example, scheme)
        except Failed as failure:
            problems.append(f"{example}: {failure}")
            continue
        print(f"   {example}: loss {native['losses'][0]:.4g}, after {len(native['losses'])} steps "
              f"{native['losses'][-1]:.4g} native, {compressed['losses'][-1]:.4g} {scheme}",
              flush=True)
        problems += [f"{example}: {problem}" for problem in compare(native, compressed)]
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
