"""Starts one process a rank, and ends all of them when one fails."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

_GRACE_SECONDS = 5  # for the others, once one rank has failed
_PR_SET_PDEATHSIG = 1


class RankError(Exception):
    pass


def _prepare(enter):
    """Run in the child. It ends with netlab, even when that is killed; enter() puts it on its host.
    What a killed netlab's child had started itself goes with the next netlab that makes namespaces,
    and on the loopback interface not at all."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare():
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        enter()

    return prepare


def _start(lab, rank, program, settings, output):
    """Its output goes to the file; None: it is shown."""
    variables = [f"{name}={value}" for name, value in lab.environment(rank).items()]
    # Through env, so that an LD_PRELOAD reaches the program and not `ip`.
    command = lab.command(rank, ["env", *variables, *settings, *program])
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT if output else None, start_new_session=True,
                            preexec_fn=_prepare(lambda: lab.enter(rank)))


def _end(process):
    """With what it has started, but not what has left its process group, as setsid does: in
    namespaces that ends with the lab, and on the loopback interface goes on."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _wait(processes, timeout):
    """Until all have ended, or some time after one has failed. Throws RankError at the timeout."""
    end = time.monotonic() + timeout
    failed = False
    while any(process.poll() is None for process in processes):
        if not failed and any(process.poll() for process in processes):
            failed = True
            end = min(end, time.monotonic() + _GRACE_SECONDS)
        if time.monotonic() > end:
            if failed:
                return
            raise RankError(f"the program did not end within {timeout:g} s")
        time.sleep(0.01)


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals only the first and the last have one
        return f"signal {number}"


def _show_failure(rank, code, output):
    output.seek(0)
    tail = output.read().decode(errors="replace").splitlines()[-20:]
    ended = f"ended with {code}" if code >= 0 else f"was ended by {_signal_name(-code)}"
    print(f"netlab: rank {rank} {ended}", file=sys.stderr)
    for line in tail:
        print(f"netlab: rank {rank}: {line}", file=sys.stderr)


def run_ranks(lab, program, settings, timeout, show=True):
    """The exit codes by rank, above 128 for a signal; and rank 0's output, where that is not
    shown."""
    show = show and sys.stdout is not None  # which it is when closed
    if show:
        sys.stdout.flush()
    lab.begin()
    processes, outputs = [], []
    try:
        for rank in range(lab.placement.ranks):
            outputs.append(tempfile.TemporaryFile())
            processes.append(_start(lab, rank, program, settings,
                                    None if show and rank == 0 else outputs[rank]))
        _wait(processes, timeout)
    except FileNotFoundError as error:
        raise RankError(f"cannot start {error.filename}") from error
    finally:
        for process in processes:
            _end(process)
        codes = [process.wait() for process in processes]
    for rank, code in enumerate(codes):
        if code != 0:
            _show_failure(rank, code, outputs[rank])
    outputs[0].seek(0)
    return ([code if code >= 0 else 128 - code for code in codes],
            outputs[0].read().decode(errors="replace"))
