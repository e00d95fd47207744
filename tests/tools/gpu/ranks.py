#!/usr/bin/env python3
"""Runs a program as several ranks on this machine, each a process of its own.

    tests/tools/gpu/ranks.py --ranks 2 PROGRAM ARGUMENTS

Where the ranks are more than the GPUs, the programs here give each an NCCL_HOSTID, without which NCCL
refuses two ranks on one GPU; their traffic then goes over sockets, of the loopback interface. Prints
what rank 0 printed, and of a failed run what all ranks did. Exits with the worst rank's exit code.
"""

import argparse
import os
import sys

import machine

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import processes  # noqa: E402
from ports import free_port  # noqa: E402

# One GPU for several ranks: each is a host of its own to NCCL. Few thread blocks each, so that those
# of all ranks find room beside each other's work.
SHARED_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1",
              "NCCL_MNNVL_ENABLE": "0", "NCCL_MAX_CTAS": "4"}
# The same as ranks of one host, over shared memory: NCCL takes them from 2.30.3 on.
SHARED_GPU_OF_ONE_HOST = {"NCCL_HOSTID": "one host", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
FIRST_NCCL_OF_ONE_HOST = 23003


def share_gpus(ranks):
    return len(machine.gpus()) < ranks


def can_share_on_one_host(ranks, nccl_version):
    return (share_gpus(ranks) and isinstance(nccl_version, int)
            and nccl_version >= FIRST_NCCL_OF_ONE_HOST)


def settings(ranks):
    """NCCL's, for this many ranks, where they are not set already."""
    return {"NCCL_DEBUG": "WARN", **(SHARED_GPU if share_gpus(ranks) else {})}


def environments(ranks, extra=None):
    """By rank, the variables that torchrun would set, and what lets ranks share a GPU. Those that
    are set already stay."""
    port = str(free_port())
    common = {**settings(ranks), **os.environ}
    for rank in range(ranks):
        yield {**common, "RANK": str(rank), "LOCAL_RANK": str(rank),
               "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(extra or {})}


def run(command, ranks, extra=None, timeout=300, cwd=None):
    """(the worst rank's exit code, results by rank, whether it took too long)"""
    results, late = processes.run(
        [(command, environment) for environment in environments(ranks, extra)], timeout, cwd)
    codes = [result.code for result in results]
    own = (code for code in codes if code not in (0, processes.ENDED))
    return next(own, None) or next((code for code in codes if code != 0), 0), results, late


def transcript(results):
    """What all ranks printed."""
    return "".join(f"[rank {rank} ended with {result.code}]\n{result.out}{result.err}\n"
                   for rank, result in enumerate(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    code, results, late = run(options.command, options.ranks, timeout=options.timeout)
    sys.stdout.write(results[0].out)
    sys.stderr.write(transcript(results) if code != 0 else "".join(r.err for r in results))
    if late:
        sys.stderr.write(f"(ended after {options.timeout:g} s)\n")
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
