"""Ranks that NCCL does not come back to, where they are to meet (fake/stuck_nccl.cc), say so:

    overdue_test.py RANK_PROGRAM PRELOAD_LIBRARY TERSE_NCCL=LIBRARY
"""

import threading
import unittest

from job import Job, main

PATIENCE = 30  # seconds, for a line that is due after one


class Overdue(unittest.TestCase):
    def test_a_rank_says_what_it_waits_for(self):
        with Job([{"TERSE_SCHEME": "int8", "TERSE_TIMEOUT": "1", "TERSE_LOG": "warn"}] * 2) as job:
            end = threading.Timer(PATIENCE, lambda: [one.kill() for one in job.processes])
            end.start()
            said = [next((line for line in process.stderr if "has not come back" in line), "nothing")
                    for process in job.processes]
            end.cancel()
        for rank, line in enumerate(said):
            self.assertIn(f"[{rank}] terse WARN a new communicator, rank {rank} of 2: NCCL has not "
                          "come back from connecting the ranks for 1 s (TERSE_TIMEOUT)", line)


if __name__ == "__main__":
    main()
