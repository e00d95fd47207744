"""Fused calls of ranks that are processes: the bytes of calls in steps, also where a rank cannot share
memory; and a rank that is killed ends the others.

    fused_test.py RANK_PROGRAM PRELOAD_LIBRARY [NAME=VALUE ...]

TERSE_TEST_NO_MEMFD names a library that takes the files in memory away, of hosts."""

import json
import os
import pathlib
import random
import signal
import tempfile
import time
import unittest

from job import PRELOAD, REMOTE_ERROR, SUCCESS, Job, main

RANKS = 3
NO_MEMFD = os.environ.pop("TERSE_TEST_NO_MEMFD", None)


def play(*own, scheme="int8", **usual):
    """What the ranks print, and what they log of their windows."""
    job = Job([{"TERSE_SCHEME": scheme, "TERSE_LOG": "info", **usual, **(own[rank] if own else {})}
               for rank in range(RANKS)])
    outputs = job.outputs()
    return outputs, [[line for line in log if "windows" in line] for log in job.logs]


class Fused(unittest.TestCase):
    def test_a_call_gives_the_bytes_of_one_in_steps(self):
        for scheme in ("int8", "int4:round=stochastic"):
            fused, logs = play(scheme=scheme)
            for log in logs:
                self.assertIn("calls are fused, in windows of ", log[0])
            steps, logs = play(scheme=scheme, TERSE_FUSE="off")
            self.assertEqual(logs, [[]] * RANKS)
            self.assertEqual(fused, steps)

    def test_reports_count_fused_calls(self):
        for fuse, fused in ((None, 2), ("off", 0)):
            with tempfile.TemporaryDirectory() as folder:
                play(TERSE_REPORT=folder, **({"TERSE_FUSE": fuse} if fuse else {}))
                reports = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
            self.assertEqual(len(reports), RANKS)
            for report in reports:
                (communicator,) = report["communicators"]
                (row,) = communicator["rows"]
                self.assertEqual((row["calls"], row.get("fused_calls", 0)), (2, fused))
                self.assertEqual("window_bytes" in communicator, fused != 0)
                self.assertEqual(row["seconds"].get("fused", 0), fused and row["seconds"]["total"])

    @unittest.skipUnless(NO_MEMFD, "on hosts")
    def test_a_rank_without_a_window_has_all_do_steps(self):
        steps, _ = play(TERSE_FUSE="off")
        outputs, logs = play({}, {"LD_PRELOAD": f"{NO_MEMFD}:{PRELOAD}"}, {})
        self.assertEqual(outputs, steps)
        for rank, log in enumerate(logs):
            cause = "is not to be had: Function not implemented" if rank == 1 else "rank 1 has none"
            self.assertEqual(len(log), 1)
            self.assertRegex(log[0], rf"calls that need windows of \d+ B or more are not fused: .*{cause}")
            self.assertEqual(" terse NOTE " in log[0], rank == 0)

    def test_a_rank_that_is_killed_ends_the_others(self):
        chance = random.Random(1)
        for _ in range(8):
            with Job([{"TERSE_SCHEME": "int8"}] * RANKS, rounds=100_000) as job:
                time.sleep(0.5 + chance.random() / 2)
                job.processes[1].send_signal(signal.SIGKILL)
                outputs = job.outputs()
            for rank in (0, 2):
                *done, last = outputs[rank]
                self.assertEqual(last[2].split()[0], REMOTE_ERROR, last)
                self.assertIn(f"communicator #0, rank {rank} of {RANKS}", last[2])
                self.assertTrue(all(line[1:2] == [SUCCESS] or line[2].split()[0] == SUCCESS
                                    for line in done))


if __name__ == "__main__":
    main()
