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

import local_ranks  # noqa: E402
from ports import free_port  # noqa: E402

BUILD = os.environ.get("TERSE_TEST_BUILD_DIR", os.path.join(ROOT, "build", "host"))
SAMPLE = os.path.join(ROOT, "bench", "data", "gradient_rank{rank}.f32")
NETLAB = os.path.join(ROOT, "bench", "netlab", "netlab")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
MESSAGES = ("sendrecv", "alltoallv", "hypercube")
ALL_COLLECTIVES = (*COLLECTIVES, *ROOTED, "alltoall", *MESSAGES)
UNCHECKED_IN_PLACE = ("alltoall", "alltoallv", "sendrecv")


def netlab(*arguments, timeout=120, **how):
    return subprocess.run([NETLAB, *arguments], capture_output=True, text=True, check=False,
                          timeout=timeout, **how)


def has_namespaces():
    """Whether tests that need them run. With TERSE_REQUIRE_NAMESPACES=1 it is an error that they do
    not, of all tests in the file."""
    found = netlab("--probe").stdout.strip() == "namespaces"
    if not found and os.environ.get("TERSE_REQUIRE_NAMESPACES") == "1":
        raise AssertionError("TERSE_REQUIRE_NAMESPACES=1, and netlab cannot make namespaces here")
    return found


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
        [os.path.join(BUILD, "bin", "terse"), "explain", "--cpu", "--collective", collective, "--bytes",
         str(size), "--ranks", str(ranks), "--nodes", str(nodes), "--scheme", scheme],
        capture_output=True, text=True, check=True).stdout
    said = re.search(r"^a node .*\((\d+) B\) to others in place of .*\((\d+) B\)", explained,
                     re.MULTILINE)
    return int(said[1]), int(said[2])


def library(name):
    return os.path.join(BUILD, "lib", name)


def clean_environment(extra=None):
    return local_ranks.environment(**(extra or {}))


def run(collective, *arguments, env=None, timeout=60):
    return subprocess.run([program(collective), *map(str, arguments)], text=True, check=False,
                          capture_output=True, timeout=timeout, env=clean_environment(env))


def job(collective, size, *arguments, launcher=local_ranks.torchrun, env=None):
    """(commands, environments) of its processes, by rank."""
    port = free_port()
    return ([[program(collective), *arguments]] * size,
            [clean_environment({**launcher(rank, size, port), **(env or {})}) for rank in range(size)])


def run_processes(collective, size, *arguments, **how):
    """[(exit code, stdout, stderr)] by rank, none of which may fail."""
    return local_ranks.run(*job(collective, size, *arguments, **how))


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


def checksums(output):
    """[(size, place, rank, checksum)]"""
    return re.findall(r"# checksum size (\d+) .* (\S+-place) rank (\d+) ([0-9a-f]{16})", output)
