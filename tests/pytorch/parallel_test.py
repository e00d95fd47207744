"""Tensor beside data parallelism on the backend hostnccl: parallel_test.py PYTHON TERSE HOSTNCCL"""

import json
import sys
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]
WAYS = ("megatron", "fsdp2", "fsdp1", "ddp")


class Parallel(unittest.TestCase):
    def test_what_tensor_parallel_ranks_hold_alike_stays_alike(self):
        """Where exclude_norms was called, alone."""
        jobs = [f"parallel:4:{way}{rest}" for way in WAYS for rest in ("", ":not")]
        run = [TERSE, "run", "--scheme", "nodes=2.. -> fast", "--nccl", HOSTNCCL, "--"]
        for job, ranks in zip(jobs, playing.play(PYTHON, jobs, run, {"TERSE_MIN_BYTES": "1024"})):
            for rank in ranks:
                with self.subTest(job):
                    self.assertEqual(rank["status"], 0, rank["output"])
                    found = json.loads(rank["output"].splitlines()[-1])
                    self.assertGreater(found["alike"], 1000)
                    if job.endswith(":not"):
                        # Of two replicas DDP's sums are one-shot, whose draws do not go by what is sent, and
                        # its norms fill blocks of their own.
                        if "ddp" not in job:
                            self.assertGreater(found["differing"], 1000)
                        continue
                    self.assertEqual(found["differing"], 0)
                    self.assertGreater(found["exact"], 1000)
                    self.assertLess(found["exact"], found["all"] / 2)  # what is split is compressed


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
