"""Programs that gather and then compute the same on all ranks: alike_test.py PYTHON TERSE HOSTNCCL"""

import json
import sys
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]

OWN_EXACT = "allgather -> minmax8:round=shift,own=exact; safe"
# The first is that of `terse run` itself, on nodes of two ranks.
JOBS = {"default": "alike:4", **{scheme: f"alike:2:{scheme}" for scheme in
                                 ("safe", "fast", "qsdp", "sdp4bit", OWN_EXACT)}}
# What schemes do not promise: hadamard mixes a zero with 31 other elements.
LOSSY = {"sdp4bit": ("rows without gradients, fp32", "rows without gradients, bf16")}

# What does not depend on it: rows are reduced, and rounded squares stay squares.
NOT_GATHERED = ("rows without gradients, fp32", "rows without gradients, bf16", "full checkpoint, bf16")


class Alike(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.found = {}
        run = [TERSE, "run", "--nccl", HOSTNCCL, "--"]
        for scheme, ranks in zip(JOBS, playing.play(PYTHON, JOBS.values(), run,
                                                    {"TERSE_MIN_BYTES": "0"})):
            for rank in ranks:
                if rank["status"] != 0:
                    raise AssertionError(f"{scheme}: exit status {rank['status']}:\n{rank['output']}")
            cls.found[scheme] = json.loads(ranks[0]["output"].splitlines()[-1])

    def test_ranks_stay_together(self):
        """With all seeds, and not because nothing was compressed."""
        for scheme, found in self.found.items():
            if scheme != OWN_EXACT:
                with self.subTest(scheme):
                    self.assertGreater(found["calls"], 500)
                    self.assertEqual({kind: seeds for kind, seeds in found["parted"].items()
                                      if seeds and kind not in LOSSY.get(scheme, ())}, {})

    def test_own_shards_that_stay_exact_part_ranks(self):
        """So these programs do depend on it."""
        for kind, parted in self.found[OWN_EXACT]["parted"].items():
            with self.subTest(kind):
                if kind not in NOT_GATHERED:
                    self.assertTrue(parted)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
