"""What the tests share whose ranks are processes. They are called with

    RANK_PROGRAM PRELOAD_LIBRARY [NAME=VALUE ...]

where the variables are set wherever the library is preloaded."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, PRELOAD = sys.argv[1:3]
ALWAYS = dict(setting.split("=", 1) for setting in sys.argv[3:])
PATIENCE = 120  # seconds after which a rank counts as hung

# What a rank says first where it has heard of another's end before it was asked: a matter of time.
_OTHERS = re.compile(r"rank \d+ gave up: aborted; before: ")

SUCCESS, SYSTEM_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = "0", "2", "4", "5", "6"


class Job:
    """The ranks of one program, each with its own settings."""

    def __init__(self, settings, *words, count=100_000, rounds=2, preload=True):
        self.scratch = tempfile.TemporaryDirectory()
        self.processes = []
        for rank, own in enumerate(settings):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("TERSE_")}
            environment.update(HOSTNCCL_TIMEOUT="10", TERSE_LOG="off", NCCL_SOCKET_IFNAME="lo")
            if preload:
                environment.update(ALWAYS, LD_PRELOAD=PRELOAD,
                                   ASAN_OPTIONS="verify_asan_link_order=0"
                                                f":detect_leaks={int(not ALWAYS)}")
            environment.update(own)
            command = [PROGRAM, rank, len(settings), self.scratch.name + "/id", count, rounds,
                       *words]
            self.processes.append(
                subprocess.Popen([str(word) for word in command], env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def outputs(self):
        """Each rank's lines, as lists of words, with what it has said itself. What it has said in the
        log is in self.logs."""
        result, self.logs = [], []
        for process in self.processes:
            try:
                out, err = process.communicate(timeout=PATIENCE)
                result.append([_OTHERS.sub("", line).split(maxsplit=2) for line in out.splitlines()])
                self.logs.append([line for line in err.splitlines() if " terse " in line])
                if process.returncode not in (0, -signal.SIGKILL):
                    raise AssertionError(f"exit status {process.returncode}: {err}")
            except subprocess.TimeoutExpired:
                for other in self.processes:
                    other.kill()
                raise AssertionError("a rank hangs")
        self.scratch.cleanup()
        return result


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
