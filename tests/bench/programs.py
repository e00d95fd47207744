"""What the tests of the perf programs share."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))

from ports import free_port  # noqa: E402

BUILD = os.environ.get("TERSE_TEST_BUILD_DIR", os.path.join(ROOT, "build", "host"))
SAMPLE = os.path.join(ROOT, "bench", "data", "gradient_rank{rank}.f32")
NETLAB = os.path.join(ROOT, "bench", "netlab", "netlab")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
MESSAGES = ("sendrecv", "alltoallv", "hypercube")
ALL_COLLECTIVES = (*COLLECTIVES, *ROOTED, "alltoall", *MESSAGES)
UNCHECKED_IN_PLACE = ("alltoall", "alltoallv", "sendrecv")
_LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
              "SLURM_PROCID", "TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "MASTER_PORT")


def netlab(*arguments, timeout=120, **how):
    return subprocess.run([NETLAB, *arguments], capture_output=True, text=True, check=False,
                          timeout=timeout, **how)


def has_namespaces():
    return netlab("--probe").stdout.strip() == "namespaces"


def left_over(pid):
    """The namespaces of the netlab that was this process."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True,
                           check=False).stdout
    return [name for name in names.split() if name.startswith(f"terse-netlab-{pid}-")]


def program(collective):
    return os.path.join(BUILD, "bin", f"{collective}_perf")


def planned(collective, size, ranks, nodes, scheme):
    """(bytes out of a node, the same of NCCL) as terse explains a call of fp32."""
    explained = subprocess.run(
        [os.path.join(BUILD, "bin", "terse"), "explain", "--collective", collective, "--bytes",
         str(size), "--ranks", str(ranks), "--nodes", str(nodes), "--scheme", scheme],
        capture_output=True, text=True, check=True).stdout
    said = re.search(r"^a node .*\((\d+) B\) to others in place of .*\((\d+) B\)", explained,
                     re.MULTILINE)
    return int(said[1]), int(said[2])


def library(name):
    return os.path.join(BUILD, "lib", name)


def clean_environment(extra=None):
    environment = {k: v for k, v in os.environ.items() if k not in _LAUNCHERS}
    environment.update(extra or {})
    return environment


def run(collective, *arguments, env=None, timeout=60):
    return subprocess.run([program(collective), *map(str, arguments)], text=True, check=False,
                          capture_output=True, timeout=timeout, env=clean_environment(env))


def start(collective, rank, size, port, *arguments, names=("RANK", "WORLD_SIZE"), env=None):
    launch = {names[0]: str(rank), names[1]: str(size), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port), **(env or {})}
    return subprocess.Popen([program(collective), *map(str, arguments)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=clean_environment(launch))


def run_processes(collective, size, *arguments, timeout=60, **how):
    """[(exit code, stdout, stderr)] by rank."""
    port = free_port()
    processes = [start(collective, rank, size, port, *arguments, **how) for rank in range(size)]
    results = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\n(killed by the test: it did not end)"
        results.append((process.returncode, out, err))
    return results


@contextlib.contextmanager
def fake_gpus(*names):
    """An nvidia-smi that tells these; with no name, one that finds no driver."""
    lines = "".join(f"echo '{name}, 580.65.06'\n" for name in names)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "nvidia-smi")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{lines or 'exit 9'}\n")
        os.chmod(path, 0o755)
        with mock.patch.dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}"):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            yield


def no_gpus():
    return fake_gpus()


def rows(output):
    """The fields of every result line."""
    return [line.split() for line in output.splitlines() if line and not line.startswith("#")]
