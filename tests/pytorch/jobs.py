"""Ranks of several jobs, one job after the other: jobs.py PROGRAM:RANKS[:ARGUMENT]... They are forked from
this process, so that torch is imported once. Prints for each job, as JSON, how its ranks ended and what
they printed."""

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import torch.distributed.fsdp  # noqa: E402, F401
import forked  # noqa: E402
import torch_hostnccl  # noqa: E402, F401
from ports import free_port  # noqa: E402

# What a program begins with and takes long to read.
MODULES = {"megatron": ["megatron_gpt"],
           "deepspeed": ["deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer"]}
PATIENCE = 240  # seconds, after which a rank is killed


def become(rank, size, port, output):
    """This process is the rank from here on."""
    signal.alarm(PATIENCE)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size),
                      LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def ended(process, output):
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    output.seek(0)
    return {"status": status, "output": output.read()}


def main():
    results = []
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "pytorch"))
    for program in {job.partition(":")[0] for job in sys.argv[1:]}:
        for module in MODULES.get(program, ()):
            importlib.import_module(module)
    forked.keep_all()
    for job in sys.argv[1:]:
        program, size, *arguments = job.split(":")
        port, outputs, processes = free_port(), [], []
        for rank in range(int(size)):
            outputs.append(tempfile.TemporaryFile("w+", encoding="utf-8"))  # pylint: disable=R1732
            processes.append(os.fork())
            if processes[-1] == 0:
                become(rank, int(size), port, outputs[-1])
                sys.argv[1:] = arguments
                runpy.run_path(f"{HERE}/{program}_rank.py", run_name="__main__")
                forked.leave()
        results.append([ended(*each) for each in zip(processes, outputs)])
    print(json.dumps(results))


main()
