"""Steps of trainings as frameworks make them, on the backend hostnccl, natively and compressed:
steps_test.py PYTHON TERSE HOSTNCCL"""

import os
import sys
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Steps(unittest.TestCase):
    def play(self, *jobs, scheme=None):
        """All ranks must end well. Without a scheme terse is not there."""
        run = [TERSE, "run", "--scheme", scheme, "--nccl", HOSTNCCL, "--"] if scheme else []
        results = playing.play(PYTHON, jobs, run, {"PYTHONPATH": ROOT + "/python"})
        for job, ranks in zip(jobs, results):
            for rank, result in enumerate(ranks):
                with self.subTest(job=job, rank=rank, scheme=scheme):
                    self.assertEqual(result["status"], 0, result["output"])
                    self.assertIn("good", result["output"].splitlines())

    def test_native(self):
        self.play("coalesced:3:0", "microsteps:2:exact", "replicas:4:10")

    def test_calls_that_go_together(self):
        """Of 16 bits alone those of fp32."""
        for scheme, calls in (("int8", 18), ("fp8e4m3", 18), ("allgather -> int8; linear16", 12)):
            self.play(f"coalesced:3:{calls}", scheme=scheme)

    def test_replicas_stay_alike(self):
        """At the lowest of usual widths, and where gathers are differences to what was there."""
        self.play("replicas:4:200", scheme="int4")
        differences = "allgather -> int4:delta=inplace,own=quantized"
        self.play("replicas:4:30", scheme=f"{differences}; learned4:learn=1+3")

    def test_micro_steps_and_unused_parameters(self):
        for scheme in ("int8", "learned6:learn=1+3+5"):
            self.play("microsteps:2:compressed", "microsteps:2:hooked", scheme=scheme)

    def test_a_step_that_is_left_out_sends_no_differences(self):
        for delta in ("inplace", "shadow"):
            self.play("deltas:2", scheme=f"allgather -> int8:delta={delta}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
