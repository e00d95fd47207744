"""A rank that is killed at each step of a call in two levels, before NCCL has the step's messages or
when they have come and gone: none of the others may hang, and all are told. And one that is only late.

    killed_test.py RANK_PROGRAM PRELOAD_LIBRARY TERSE_NCCL=THE_ONE_THAT_KILLS [NAME=VALUE ...]"""

import concurrent.futures
import os
import tempfile
import unittest

from job import REMOTE_ERROR, SUCCESS, Job, main

RANKS, NODES = 4, 2
COUNT, CHUNKS = 131_072, 2
SCHEME = {"TERSE_SCHEME": "int4:intra=int8,hadamard=32", "TERSE_TIMEOUT": "20",
          "TERSE_CHUNK_BYTES": str(4 * COUNT // CHUNKS)}
PHASES = 4  # of AllReduce: within nodes, between them, and back


def play(rounds, victim, **victims_own):
    """Each rank's lines. Ranks take turns in being on one of the nodes."""
    settings = [{**SCHEME, "NCCL_HOSTID": f"node {rank % NODES}"} for rank in range(RANKS)]
    settings[victim].update(victims_own)
    return Job(settings, count=COUNT, rounds=rounds).outputs()


def groups_until(rounds):
    """How many groups of calls a rank makes until the end of so many rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "count")
        play(rounds, 0, DYING_COUNT=path)
        with open(path, encoding="ascii") as file:
            return int(file.read())


class Killed(unittest.TestCase):
    def check(self, case):
        group, after = case
        victim = group % RANKS
        outputs = play(3, victim, DYING_GROUP=str(group), DYING_AFTER="1" if after else "")
        sums = {}
        for rank, lines in enumerate(outputs):
            if rank == victim:
                self.assertEqual(len(lines), 2, lines)  # its second call was its last
                continue
            self.assertEqual(lines[0][:2], ["init", SUCCESS])
            for number, line in enumerate(lines[1:]):
                result, total, said = (line[2] + " ").split(" ", 2)
                if line is not lines[-1]:
                    self.assertEqual(result, SUCCESS, (case, rank, line))
                    sums.setdefault(number, set()).add(total)
                else:
                    self.assertEqual(result, REMOTE_ERROR, (case, rank, line))
                    self.assertIn(f"communicator #0, rank {rank} of {RANKS}", said, (case, rank))
        for number, found in sums.items():
            self.assertEqual(len(found), 1, (case, number))  # who has a result has the same

    def test_at_each_step_of_a_call(self):
        first, last = groups_until(1), groups_until(2)
        self.assertEqual(last - first, CHUNKS + PHASES - 1)  # each a phase behind the one before
        cases = [(group, after) for group in range(first + 1, last + 1) for after in (False, True)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(self.check, cases))

    def test_a_late_rank_changes_nothing(self):
        first, last = groups_until(1), groups_until(2)
        usual = play(2, 0)
        for group in range(first + 1, last + 1, CHUNKS):
            for after in ("", "1"):
                outputs = play(2, group % RANKS, DYING_GROUP=str(group), DYING_AFTER=after,
                               DYING_PAUSE="700")
                self.assertEqual(outputs, usual, (group, after))


if __name__ == "__main__":
    main()
