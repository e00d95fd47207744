"""What int8 is for: AllReduce of 64 MiB of fp32 by two processes over NCCL's sockets is to be several
times as fast as native, and the codec to take a small share of the native time."""

import statistics
import tempfile

import perf_program
import terse_reports
from context import Failed

SPEED_UP = 2.5
CODEC_SHARE = 0.1
ROUNDS = 3
CASE = ("all_reduce", "float", "-b", "64M", "-e", "64M", "-n", "10", "-w", "2", "-c", "0")
WAYS = {"native": (), "int8": ("--scheme", "int8")}
# Nothing faster, where each rank has a GPU of its own.
SOCKETS = {"NCCL_NET": "Socket", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def play(context, way, env):
    """Microseconds of a call."""
    [row] = perf_program.measure(context, *CASE, *WAYS[way], env={**SOCKETS, **env})
    return row["us"]


def summary(times):
    middle = statistics.median(times)
    return {"us": times, "median": middle, "spread": round((max(times) - min(times)) / middle, 3)}


def judgement(goal, reached, met):
    return {"goal": goal, "reached": reached and round(reached, 4), "met": met}


def speed_up(context):
    """(figures, complaints). The two take turns, so that what changes over time meets both."""
    times, complaints = {way: [] for way in WAYS}, []
    try:
        for _ in range(ROUNDS):
            for way, found in times.items():
                found.append(play(context, way, {}))
    except Failed as failure:
        complaints.append(f"{way} AllReduce of 64 MiB: {failure}")
    figures = {way: summary(found) for way, found in times.items() if found}
    reached = None
    if len(figures) == len(WAYS):
        reached = figures["native"]["median"] / figures["int8"]["median"]
    met = reached is not None and reached >= SPEED_UP
    return {**judgement(SPEED_UP, reached, met), **figures}, complaints


def codec_share(context, native):
    """(figures, complaints), of the slowest rank, every call timed. `native`: microseconds, or
    None."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            play(context, "int8", {"TERSE_METER": "1", "TERSE_REPORT": folder})
            ranks = list(terse_reports.seconds_a_call(folder))
        if len(ranks) != perf_program.RANKS:
            raise Failed(f"of {perf_program.RANKS} ranks {len(ranks)} said how long calls took")
    except Failed as failure:
        return judgement(CODEC_SHARE, None, False), [f"the codec's share: {failure}"]
    slowest = max(ranks, key=lambda rank: rank["encode"] + rank["decode"])
    reached = None
    if native:
        reached = (slowest["encode"] + slowest["decode"]) * 1e6 / native
    met = reached is not None and reached < CODEC_SHARE
    return {**judgement(CODEC_SHARE, reached, met), "native us": native,
            "seconds a call": slowest}, []
