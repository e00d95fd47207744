"""A rank that is short of memory, alone, as by a limit of its container (RLIMIT_AS):

    memory_test.py RANK_PROGRAM PRELOAD_LIBRARY [NAME=VALUE ...]

All ranks have the right sums, or all have an error that names its cause; none waits for ever, and none is
ended. What fails natively may fail so."""

import unittest

from job import SUCCESS, Job, main

MEGABYTE, PLENTY = 1_000_000, 1000
COUNT = 1_000_000  # elements of a call, which needs memory to be compressed


def play(scheme, **limit):
    """The outputs of two ranks, and what they logged; rank 1 has the limit."""
    own = {"TERSE_SCHEME": scheme, "TERSE_LOG": "warn", "TERSE_TIMEOUT": "20"}
    job = Job([own, {**own, **limit}], count=COUNT, preload=scheme != "native")
    return job.outputs(), job.logs


def results(lines):
    """A rank's result in each line, and the sum of each round."""
    rounds = [line[2].split() for line in lines[1:]]
    return [lines[0][1], *(each[0] for each in rounds)], [each[1] for each in rounds]


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sums = {scheme: results(play(scheme)[0][0])[1] for scheme in ("native", "int8", "exp8")}

    def expect_sums_or_errors(self, scheme, variable, room):
        """Whether it is sums."""
        limit = {variable: str(room * MEGABYTE)}
        outputs, _ = play(scheme, **limit)
        ends = [results(lines)[0][-1] == SUCCESS for lines in outputs]
        self.assertEqual(ends[0], ends[1], (limit, outputs))
        for lines in outputs:
            found, sums = results(lines)
            for number, (result, total) in enumerate(zip(found[1:], sums)):
                if result == SUCCESS:
                    self.assertIn(total, (self.sums[scheme][number], self.sums["native"][number]), limit)
            if found[-1] != SUCCESS:
                self.assertRegex(" ".join(lines[-1]), "nccl[A-Z].*: ", limit)
        return ends[0]

    def test_at_the_first_call_all_ranks_call_nccl_instead(self):
        self.assertNotEqual(self.sums["int8"], self.sums["native"])
        for scheme in "int8", "exp8":
            outputs, logs = play(scheme, ROOM_AT_CALLS="0")
            for rank, lines in enumerate(outputs):
                self.assertEqual(results(lines), ([SUCCESS] * 3, self.sums["native"]))
                self.assertIn("of scratch memory are not to be had, NCCL does without: ", logs[rank][-1])

    def expect_of_all(self, variable, rooms):
        for scheme in self.sums:
            ends = [self.expect_sums_or_errors(scheme, variable, room) for room in rooms]
            self.assertTrue(ends[-1])

    def test_at_a_call(self):
        self.expect_of_all("ROOM_AT_CALLS", [*range(0, 24, 3), PLENTY])

    def test_at_creation(self):
        self.expect_of_all("ROOM_AT_CREATION", [*range(16, 160, 16), PLENTY])


if __name__ == "__main__":
    main()
