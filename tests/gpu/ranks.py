#!/usr/bin/env python3
"""Runs a program as several ranks on this machine, each a process of its own.

    tests/gpu/ranks.py --ranks 2 PROGRAM ARGUMENTS

Where the ranks are more than the GPUs, the programs here give each an NCCL_HOSTID, without which NCCL
refuses two ranks on one GPU; their traffic then goes over sockets, of the loopback interface. Exits
with the worst rank's exit code.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time

import machine

# One GPU for several ranks: each is a host of its own to NCCL. Few thread blocks each, so that those
# of all ranks find room beside each other's work.
SHARED_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1",
              "NCCL_MNNVL_ENABLE": "0", "NCCL_MAX_CTAS": "4"}


def sharing(ranks):
    """Variables for that many ranks; those that are set already stay."""
    if len(machine.gpus()) >= ranks:
        return {}
    return {k: v for k, v in SHARED_GPU.items() if k not in os.environ}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environments(ranks, extra=None):
    """By rank, the variables that torchrun would set, and what lets ranks share a GPU."""
    port = str(free_port())
    for rank in range(ranks):
        yield {**os.environ, **sharing(ranks), "RANK": str(rank), "LOCAL_RANK": str(rank),
               "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(extra or {})}


def run(command, ranks, extra=None, timeout=300):
    """(exit code, rank 0's stdout, all ranks' stderr). When one fails the others are ended."""
    files = [(tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")) for _ in range(ranks)]
    processes = [subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, env=environment)
                 for (out, err), environment in zip(files, environments(ranks, extra))]
    deadline = time.monotonic() + timeout
    grace = None
    while any(p.poll() is None for p in processes):
        now = time.monotonic()
        if grace is None and any(p.poll() not in (None, 0) for p in processes):
            grace = now + 10
        if now > deadline or (grace is not None and now > grace):
            for process in processes:
                if process.poll() is None:
                    process.kill()
            break
        time.sleep(0.02)
    codes = [process.wait() for process in processes]
    texts = []
    for pair in files:
        for file in pair:
            file.seek(0)
        texts.append([file.read() for file in pair])
    errors = "".join(err for _, err in texts)
    if time.monotonic() > deadline:
        errors += f"\n(ended after {timeout} s)"
    # A rank that was ended because another failed says nothing of its own.
    worst = next((code for code in codes if code not in (0, -9)), None)
    if worst is None:
        worst = next((code for code in codes if code != 0), 0)
    return worst, texts[0][0], errors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    code, out, err = run(options.command, options.ranks, timeout=options.timeout)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
