"""Jobs of ranks on the backend hostnccl, played by a Python of their own (jobs.py)."""

import json
import os
import subprocess

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs.py")


def play(python, jobs, prefix=(), variables=()):
    """For each job the list of its ranks' {"status", "output"}. prefix: what starts that Python; variables:
    of its environment, beside the usual ones."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TERSE_")}
    environment.update(NCCL_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                       HOSTNCCL_TIMEOUT="60", PYTHONWARNINGS="ignore", **dict(variables))
    done = subprocess.run([*prefix, python, JOBS, *jobs], check=True, text=True,
                          stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout.splitlines()[-1])
