"""Megatron Core, unmodified, on the backend hostnccl: megatron_test.py PYTHON TERSE HOSTNCCL"""

import json
import sys
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]
STEPS = 8


def play(*jobs, scheme=None):
    """What each rank of each job printed last."""
    run = [TERSE, "run", "--scheme", scheme, "--nccl", HOSTNCCL, "--"] if scheme else []
    results = []
    for ranks in playing.play(PYTHON, jobs, run):
        for rank in ranks:
            if rank["status"] != 0:
                raise AssertionError(f"exit status {rank['status']}:\n{rank['output']}")
        results.append([json.loads(rank["output"].splitlines()[-1]) for rank in ranks])
    return results


class Megatron(unittest.TestCase):
    JOBS = ("megatron:2", "megatron:3", "megatron:3:overlap", "megatron:2:norms")

    @classmethod
    def setUpClass(cls):
        cls.native = {len(ranks): ranks[0]["losses"] for ranks in play(*cls.JOBS[:2])}
        for losses in cls.native.values():
            assert losses[-1] < losses[0] - 1, losses  # it does learn
        cls.ranks = dict(zip(cls.JOBS, play(*cls.JOBS, scheme="sdp4bit-zero32")))

    def check_losses(self, rank, ranks):
        self.assertEqual(len(rank["losses"]), STEPS)
        for step, (ours, native) in enumerate(zip(rank["losses"], self.native[ranks])):
            self.assertAlmostEqual(ours, native, delta=0.05, msg=f"step {step}")

    def test_differences_of_weights(self):
        """SDP4Bit's: the first gather of a bucket in full, and every later one of differences."""
        for job in ("megatron:2", "megatron:3", "megatron:3:overlap"):
            ranks, overlap = self.ranks[job], job.endswith("overlap")
            for rank in ranks:
                self.check_losses(rank, len(ranks))
                self.assertEqual(rank["buckets"] > 2, overlap)  # Megatron's choice
                self.assertEqual(rank["others"], 0)
                self.assertGreater(rank["own"], 0)  # that is exact, the others' is not
                stats = rank["stats"]
                self.assertEqual(stats["delta_full"], {"first": rank["buckets"], "others": 0,
                                                       "every": 0, "memory": 0,
                                                       "nonfinite": 0})
                gathers = stats["delta_calls"] + stats["delta_unchanged"] + rank["buckets"]
                self.assertEqual(gathers % rank["buckets"], 0)
                self.assertGreaterEqual(gathers, STEPS * rank["buckets"])
                self.assertGreaterEqual(stats["delta_calls"], (STEPS - 1) * rank["buckets"])
                self.assertGreater(stats["raw_bytes"], 4 * stats["wire_bytes"])

    def test_norms_and_biases_stay_exact(self):
        for job, all_exact in {"megatron:2": False, "megatron:2:norms": True}.items():
            for rank in self.ranks[job]:
                self.assertGreater(rank["exact"], 1000)
                self.assertGreater(rank["own"], rank["exact"])
                self.assertEqual(rank["own_exact"] == 0, all_exact, rank)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
