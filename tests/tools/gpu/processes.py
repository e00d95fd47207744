"""Programs that run beside each other, of which nothing is left when they must end: each has a
process group of its own, which goes as a whole. It stays in this session, so that whoever ends that
ends them, too. What they print goes to files, which nobody waits for."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import time

GRACE = 10  # seconds that the others have when one has failed
ENDED = -signal.SIGKILL  # the code of one that was ended, which says nothing of its own


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str


@contextlib.contextmanager
def _undisturbed():
    """No signal comes between the start of a program and when it is known here. Gives the function
    that its process runs first."""
    own = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

    def prepare():
        os.setpgrp()
        signal.pthread_sigmask(signal.SIG_SETMASK, own)

    try:
        yield prepare
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, own)


def _end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _wait(processes, seconds):
    """Whether they took longer than that."""
    deadline, failed = time.monotonic() + seconds, False
    while any(process.poll() is None for process in processes):
        if not failed and any(process.poll() not in (None, 0) for process in processes):
            failed, deadline = True, min(deadline, time.monotonic() + GRACE)
        if time.monotonic() > deadline:
            return not failed
        time.sleep(0.02)
    return False


def _text(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def run(commands, seconds, cwd=None):
    """(results in order, whether they took longer than that), of [(command, environment), ...]."""
    with contextlib.ExitStack() as stack:
        processes, files = [], []
        try:
            for command, environment in commands:
                pair = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
                files.append(pair)
                with _undisturbed() as prepare:
                    processes.append(subprocess.Popen(
                        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=pair[0],
                        stderr=pair[1], env=environment, cwd=cwd, preexec_fn=prepare))
            late = _wait(processes, seconds)
        finally:
            for process in processes:
                _end(process)
        return [Result(process.wait(), _text(out), _text(err))
                for process, (out, err) in zip(processes, files)], late
