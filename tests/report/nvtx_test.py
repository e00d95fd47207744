"""The ranges that a tool sees: nvtx_test.py LEAVER PRELOAD_LIBRARY RECORDER"""

import os
import subprocess
import sys
import tempfile

LEAVER, PRELOAD, RECORDER = sys.argv[1:4]
CALLS, RANKS = 3, 2
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment  # noqa: E402


def record(**settings):
    """The ranges of some calls, as lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranges")
        own = environment(LD_PRELOAD=PRELOAD, TERSE_SCHEME="int8", NVTX_INJECTION64_PATH=RECORDER,
                          NVTX_RECORD=path, **settings)
        subprocess.run([LEAVER, "destroy", str(CALLS)], env=own, check=True, timeout=60)
        with open(path) as file:
            lines = [line.rstrip() for line in file]
    calls = [line for line in lines if "AllReduce " in line]
    how = "" if settings else "fused "
    assert calls == [how + "AllReduce int8:block=128,round=nearest 400000 B 400000"] * (CALLS * RANKS), calls
    assert lines[-1] == "open 0", lines[-1]
    return [line.split() for line in lines
            if line.split()[0] in ("encode", "communicate", "decode", "fused") and line not in calls]


# 100000 floats, in two shots: each rank sends half of them twice, as 8.25 bits each.
SENT = CALLS * RANKS * 400_000 * 8.25 / 32
steps = record(TERSE_FUSE="off")
for name in "encode", "communicate", "decode":
    assert any(step[0] == name for step in steps), name
assert abs(sum(int(step[1]) for step in steps if step[0] == "communicate") - SENT) < 1000, steps
fused = record()
assert [step[0] for step in fused] == ["fused"] * (CALLS * RANKS), fused
assert abs(sum(int(step[1]) for step in fused) - SENT) < 1000, fused
