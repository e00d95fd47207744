"""Models of what ranks say to each other, checked in all schedules by Spin: models_test.py

A fault that is planted in a model must be found."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fused.pml")
SKIPPED = 77


def check(*defined):
    """(error that was found or None, number of states)"""
    with tempfile.TemporaryDirectory() as folder:
        macros = [f"-D{name}" for name in defined]
        subprocess.run(["spin", "-a", *macros, MODEL], cwd=folder, check=True, capture_output=True,
                       timeout=60)
        subprocess.run(["cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=2000", "-o",
                        "pan", "pan.c"], cwd=folder, check=True, timeout=60)
        # No schedule may be longer than the search is deep.
        out = subprocess.run(["./pan", "-m10000", "-b"], cwd=folder, check=False, text=True,
                             capture_output=True, timeout=100).stdout
    error = re.search(r"^pan:\d+: (.*) \(at depth", out, re.MULTILINE)
    errors = int(re.search(r"errors: (\d+)", out)[1])
    if (errors == 0) != (error is None) or "Search not completed" in out and errors == 0:
        raise AssertionError(out)
    return error and error[1], int(re.search(r"(\d+) states, stored", out)[1])


class Fused(unittest.TestCase):
    """Ranks, calls, tiles, units of threads: what fits in some seconds each."""

    def test_one_call_of_one_unit(self):
        self.assertEqual(check("CALLS=1", "UNITS=1", "TILES=1")[0], None)

    def test_calls_in_a_row(self):
        self.assertEqual(check("CALLS=4", "UNITS=1", "TILES=1")[0], None)

    def test_calls_of_two_sizes(self):
        error, states = check("CALLS=3", "UNITS=1")
        self.assertEqual(error, None)
        self.assertGreater(states, 1_000_000)

    def test_two_units(self):
        self.assertEqual(check("CALLS=1", "NOBODY_GIVES_UP")[0], None)
        self.assertEqual(check("CALLS=2", "RANKS=2")[0], None)
        self.assertEqual(check("CALLS=3", "RANKS=2", "NOBODY_GIVES_UP")[0], None)

    def test_faults_are_found(self):
        small, units = ("UNITS=1", "TILES=1"), ("RANKS=2", "CALLS=2")
        content, to_be_read, freed = "content[", "!(to_be_read[", "!(is_freed["
        for fault, asserted, *conditions in (
                ("NO_FIRST_WAIT", content, "CALLS=1", *small), ("NO_SECOND_WAIT", content, "CALLS=1", *small),
                ("OLD_EPOCH", content, "CALLS=2", *small), ("NO_TURN", to_be_read, "CALLS=2", *small),
                ("NO_JOIN", to_be_read, *units), ("NO_LOOK", to_be_read, "CALLS=2", *small),
                ("FREE_EARLY", freed, "CALLS=1", *small)):
            error, _ = check(fault, *conditions)
            self.assertIsNotNone(error, fault)
            self.assertTrue(error.startswith("assertion violated"), fault)
            self.assertIn(asserted, error.replace(" ", ""), fault)


if __name__ == "__main__":
    if shutil.which("spin") is None:
        print("skipped: there is no spin")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
