"""Ranks of a test, each a process of this machine: their environment, their start and their end."""

import contextlib
import os
import re
import subprocess
import threading
import time

import processes
from processes import Result

# What changes a program that is tested, and what those set who start ranks: a test sets it itself.
_NOT_THEIRS = re.compile(
    r"(TERSE_|NCCL_TESTS_|OMPI_COMM_WORLD_|PMIX?_|MPI_LOCAL|SLURM_|TORCHELASTIC_|MASTER_).*"
    r"|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)|LD_PRELOAD|NCCL_HOSTID|COLUMNS")


def environment(**settings):
    """This process's, without that, and with the settings. One that is None is taken away; ASAN_OPTIONS
    are added to those that are there."""
    result = {name: value for name, value in os.environ.items() if not _NOT_THEIRS.fullmatch(name)}
    # A preloaded library comes before the sanitizer's run-time.
    sanitizer = filter(None, ["verify_asan_link_order=0", result.get("ASAN_OPTIONS"),
                              settings.get("ASAN_OPTIONS")])
    result.update({"NCCL_SOCKET_IFNAME": "lo", "HOSTNCCL_TIMEOUT": "20", **settings,
                   "ASAN_OPTIONS": ":".join(sanitizer)})
    return {name: str(value) for name, value in result.items() if value is not None}


def torchrun(rank, ranks, port):
    """What it sets for a rank, on one node."""
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _expected(command, results, late, seconds, codes):
    """The results, or an error with all that the ranks printed. `command` is the first one's."""
    if late or codes is not None and not {result.code for result in results}.issubset(codes):
        printed = "".join(f"\n[rank {rank} ended with {code}]\n{out}{err}"
                          for rank, (code, out, err) in enumerate(results))
        what = f"was ended after {seconds:g} s" if late else "failed"
        raise AssertionError(f"{' '.join(map(str, command))} {what}:{printed}")
    return results


def run(commands, environments, *, seconds=60, codes=(0,)):
    """The ranks' results. Other exit codes are an error, unless `codes` is None; so is to take longer."""
    ranks = list(zip(commands, environments, strict=True))
    return _expected(commands[0], *processes.run(ranks, seconds, codes=codes), seconds, codes)


def _close(ranks):
    for rank in ranks:
        for pipe in (rank.stdin, rank.stdout, rank.stderr):
            with contextlib.suppress(BrokenPipeError):  # what was written to a rank that is gone
                pipe.close()


@contextlib.contextmanager
def running(commands, environments, *, seconds=120):
    """The ranks' processes, with pipes, for who kills some or talks with them. None is left in the end,
    nor after so many seconds, so that who reads goes on; that is an error."""
    ranks, pipe, late = [], subprocess.PIPE, threading.Event()

    def end():
        late.set()
        for rank in ranks:
            processes.end(rank)

    with contextlib.ExitStack() as stack:
        stack.callback(_close, ranks)
        start = stack.enter_context(processes.starting())
        for command, each in zip(commands, environments, strict=True):
            ranks.append(start(command, env=each, text=True, stdin=pipe, stdout=pipe, stderr=pipe))
        limit = threading.Timer(seconds, end)
        stack.callback(limit.cancel)
        limit.start()
        yield ranks
    if late.is_set():
        raise AssertionError(f"ranks were ended after {seconds:g} s")


def finish(ranks, *, seconds=60, codes=(0,)):
    """The results of ranks that are running, as `run` gives them, with what nobody has read yet."""
    deadline, late, results = time.monotonic() + seconds, False, []
    for rank in ranks:
        try:
            out, err = rank.communicate(timeout=max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = True
            for each in ranks:
                processes.end(each)
            out, err = rank.communicate()
        results.append(Result(rank.returncode, out, err))
    return _expected(ranks[0].args, results, late, seconds, codes)
