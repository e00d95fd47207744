"""Jobs of ranks on the backend hostnccl, played by a Python of their own (jobs.py)."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment  # noqa: E402

JOBS = os.path.join(HERE, "jobs.py")


def play(python, jobs, prefix=(), variables=()):
    """For each job the list of its ranks' {"status", "output"}. prefix: what starts that Python; variables:
    of its environment, beside the usual ones."""
    own = environment(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", HOSTNCCL_TIMEOUT="60",
                      PYTHONWARNINGS="ignore", **dict(variables))
    done = subprocess.run([*prefix, python, JOBS, *jobs], check=True, text=True,
                          stdout=subprocess.PIPE, env=own)
    return json.loads(done.stdout.splitlines()[-1])
