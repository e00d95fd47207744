"""Programs that run beside each other, of which nothing is left when they must end: each has a
process group of its own, which goes as a whole. It stays in this session, so that whoever ends that
ends them, too. What they print goes to files, which nobody waits for."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import typing

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/netlab"))
from signals import held  # noqa: E402  pylint: disable=wrong-import-position

GRACE = 10  # seconds that the others have when one has failed
ENDED = -signal.SIGKILL  # the code of one that was ended, which says nothing of its own


class Result(typing.NamedTuple):
    code: int
    out: str
    err: str


def end(process):
    """And all of its group, also what it has left there when it has ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def starting():
    """Gives what starts programs, as Popen does. In the end none of them is left."""
    processes = []

    def start(command, **how):
        with held() as own:  # until it is known here

            def prepare():
                os.setpgrp()
                signal.pthread_sigmask(signal.SIG_SETMASK, own)

            processes.append(subprocess.Popen(list(map(str, command)), preexec_fn=prepare, **how))
        return processes[-1]

    try:
        yield start
    finally:
        for process in processes:
            end(process)
        for process in processes:
            process.wait()


def _wait(processes, seconds, codes):
    """Whether they took longer than that."""
    deadline, failed = time.monotonic() + seconds, False
    while None in (ended := [process.poll() for process in processes]):
        if not failed and codes is not None and not {None, *codes}.issuperset(ended):
            failed, deadline = True, min(deadline, time.monotonic() + GRACE)
        if time.monotonic() > deadline:
            return not failed
        time.sleep(0.02)
    return False


def _text(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def run(commands, seconds, cwd=None, codes=(0,)):
    """(results in order, whether they took longer than that), of [(command, environment), ...]. Exit
    codes but these are failures; with None, none is."""
    with contextlib.ExitStack() as stack:
        files = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in commands]
        with starting() as start:
            processes = [start(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                               stdout=out, stderr=err)
                         for (command, environment), (out, err) in zip(commands, files)]
            late = _wait(processes, seconds, codes)
        return [Result(process.returncode, _text(out), _text(err))
                for process, (out, err) in zip(processes, files)], late
