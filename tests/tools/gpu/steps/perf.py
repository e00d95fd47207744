"""The perf programs, native and compressed."""

import contextlib
import dataclasses

import goals
import preload
import ranks
from context import Failed
from perf_program import RANKS, measure

NAME = "perf"
TITLE = "collectives of two ranks, native and compressed"

SWEEP = ("-b", "1K", "-e", "64M", "-f", "4", "-n", "5", "-w", "2")
# Ranks that share a GPU take turns of milliseconds, at each of NCCL's kernels.
SHORT_SWEEP = ("-b", "64K", "-e", "64M", "-f", "32", "-n", "3", "-w", "1")


@dataclasses.dataclass
class Mode:
    arguments: tuple
    env: dict = dataclasses.field(default_factory=dict)
    preloaded: str = ""  # the scheme under the preload library
    least_ratio: float = 0  # of raw bytes to sent ones, 64 MiB of fp32


MODES = {"native": Mode(("-c", "1")),
         "int8": Mode(("--scheme", "int8"), least_ratio=3),
         "preload int8": Mode(("-c", "0"), preloaded="int8"),
         "int8, one chunk": Mode(("--scheme", "int8"), {"TERSE_CHUNK_BYTES": "64M"},
                                 least_ratio=3),
         "int4": Mode(("--scheme", "int4"), least_ratio=5.5)}
CASES = {("all_reduce", "float"): tuple(MODES),
         ("all_reduce", "bfloat16"): ("native", "int8", "int4"),
         ("all_gather", "float"): ("native", "int8", "preload int8"),
         ("reduce_scatter", "float"): ("native", "int8", "preload int8")}


def variables(context, mode):
    if not mode.preloaded:
        return contextlib.nullcontext(mode.env)
    return preload.preloaded(context, mode.preloaded, RANKS)


def sweep(context, collective, dtype, mode):
    sizes = SHORT_SWEEP if ranks.share_gpus(RANKS) else SWEEP
    with variables(context, mode) as env:
        return measure(context, collective, dtype, *sizes, *mode.arguments, env=env)


def speed_ups(rows):
    """Over native, by mode, of the largest message."""
    largest = {name: measured[-1]["us"] for name, measured in rows.items()}
    return {name: round(largest["native"] / us, 2) for name, us in largest.items()
            if name != "native" and "native" in largest}


def too_little_saved(dtype, mode, rows):
    ratio, least = rows[-1]["wire_ratio"], MODES[mode].least_ratio
    if dtype == "float" and least and not (ratio or 0) > least:
        return [f"{mode}: {ratio} times fewer bytes, not {least}"]
    return []


def sweeps(context, collective, dtype, modes):
    """(figures, complaints)"""
    rows, complaints, left = {}, [], list(modes)
    while left:
        mode = left.pop(0)
        try:
            rows[mode] = sweep(context, collective, dtype, MODES[mode])
        except Failed as failure:
            complaints.append(f"{mode}: {failure}")
            if failure.late:
                break  # the next would take as long
            continue
        complaints += too_little_saved(dtype, mode, rows[mode])
    ratios = speed_ups(rows)
    if "native" in rows:
        print(f"   {collective} {dtype} 64 MiB: native {rows['native'][-1]['us'] / 1e3:.1f} ms, "
              + ", ".join(f"{mode} {ratio}x" for mode, ratio in ratios.items()), flush=True)
    figures = {**rows, "speed-up at 64 MiB": ratios}
    return ({**figures, "not measured": left} if left else figures), complaints


def show(name, judgement, judged):
    print(f"   {name}: {judgement['reached']}, the goal is {judgement['goal']}: "
          f"{'met' if judgement['met'] else 'not met'}{'' if judged else ', not judged here'}",
          flush=True)


def judge(context, judged):
    """(figures, complaints)"""
    speed_up, complaints = goals.speed_up(context)
    share, more = goals.codec_share(context, speed_up.get("native", {}).get("median"))
    figures = {"int8 over native at 64 MiB": speed_up, "codec's share of native": share}
    for name, figure in figures.items():
        show(name, figure, judged)
        if judged and not figure["met"]:
            more.append(f"{name} is {figure['reached']}; the goal is {figure['goal']}")
    return figures, complaints + more


def run(context):
    # Shares of a GPU say what the turns cost, too: what is missed there is only recorded.
    judged = not ranks.share_gpus(RANKS)
    reached, problems = judge(context, judged)
    figures = {"judged": judged, **reached}
    for (collective, dtype), modes in CASES.items():
        name = f"{collective} {dtype}"
        figures[name], complaints = sweeps(context, collective, dtype, modes)
        problems += [f"{name} {complaint}" for complaint in complaints]
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
