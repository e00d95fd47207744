"""What the tests share whose ranks are processes. They are called with

    RANK_PROGRAM PRELOAD_LIBRARY [NAME=VALUE ...]

where the variables are set wherever the library is preloaded."""

import contextlib
import os
import re
import signal
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment, finish, running  # noqa: E402

PROGRAM, PRELOAD = sys.argv[1:3]
ALWAYS = dict(setting.split("=", 1) for setting in sys.argv[3:])
PATIENCE = 120  # seconds after which a rank counts as hung

# What a rank says first where it has heard of another's end before it was asked: a matter of time.
_OTHERS = re.compile(r"rank \d+ gave up: aborted; before: ")

SUCCESS, SYSTEM_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR = "0", "2", "4", "5", "6"


class Job(contextlib.ExitStack):
    """The ranks of one program, each with its own settings, or of several. They are there until
    `outputs`, or until a block ends that is with them."""

    def __init__(self, settings, *words, count=100_000, rounds=2, preload=True, programs=None):
        super().__init__()
        usual = {"HOSTNCCL_TIMEOUT": "10", "TERSE_LOG": "off"}
        if preload:
            usual.update(ALWAYS, LD_PRELOAD=PRELOAD, ASAN_OPTIONS=f"detect_leaks={int(not ALWAYS)}")
        scratch = self.enter_context(tempfile.TemporaryDirectory())
        self.processes = self.enter_context(running(
            [[program, rank, len(settings), scratch + "/id", count, rounds, *words]
             for rank, program in enumerate(programs or [PROGRAM] * len(settings))],
            [environment(**{**usual, **own}) for own in settings], seconds=2 * PATIENCE))

    def outputs(self):
        """Each rank's lines, as lists of words, with what it has said itself. What it has said in the
        log is in self.logs."""
        with self:
            ranks = finish(self.processes, seconds=PATIENCE, codes=(0, -signal.SIGKILL))
        self.logs = [[line for line in rank.err.splitlines() if " terse " in line] for rank in ranks]
        return [[_OTHERS.sub("", line).split(maxsplit=2) for line in rank.out.splitlines()]
                for rank in ranks]


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
