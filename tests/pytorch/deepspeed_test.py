"""DeepSpeed's ZeRO-1 and 2, unmodified, on the backend hostnccl, where it is installed (make.py --deepspeed):
deepspeed_test.py PYTHON TERSE HOSTNCCL"""

import json
import subprocess
import sys
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]
STAGES, STEPS = (1, 2), 20
VARIABLES = {"TERSE_MIN_BYTES": "1024", "DS_ACCELERATOR": "cpu"}
IS_THERE = subprocess.run([PYTHON, "-c", "import importlib.util as util, sys;"
                           "sys.exit(util.find_spec('deepspeed') is None)"], check=False).returncode == 0


@unittest.skipUnless(IS_THERE, "DeepSpeed is not installed: make.py --deepspeed")
class DeepSpeed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        jobs = [(stage, scheme) for stage in STAGES for scheme in ("off", "safe", "fast", "qsdp")]
        jobs.append((2, "safe-fsdp32"))
        run = [TERSE, "run", "--scheme", "safe", "--nccl", HOSTNCCL, "--"]
        played = playing.play(PYTHON, [f"deepspeed:2:{stage}:{scheme}" for stage, scheme in jobs], run,
                              VARIABLES)
        cls.ranks = {}
        for job, ranks in zip(jobs, played):
            for rank in ranks:
                if rank["status"] != 0:
                    raise AssertionError(f"{job}: exit status {rank['status']}:\n{rank['output']}")
            cls.ranks[job] = [json.loads(rank["output"].splitlines()[-1]) for rank in ranks]

    def test_all_ranks_hold_the_same_weights(self):
        for (stage, scheme), ranks in self.ranks.items():
            for rank in ranks:
                with self.subTest((stage, scheme)):
                    self.assertEqual(rank["calls"] > STEPS, scheme != "off")
                    if scheme == "safe-fsdp32":  # whose owners keep their weights as they are
                        self.assertGreater(rank["differing"], rank["elements"] / 2)
                    else:
                        self.assertEqual(rank["differing"], 0)

    def test_losses_are_those_of_native_runs(self):
        for (stage, scheme), ranks in self.ranks.items():
            for rank, native in zip(ranks, self.ranks[stage, "off"]):
                self.assertEqual(len(rank["losses"]), STEPS)
                for ours, exact in zip(rank["losses"], native["losses"]):
                    self.assertAlmostEqual(ours, exact, delta=0.01, msg=(stage, scheme))

    def test_the_saved_module_is_rounded_and_the_masters_are_not(self):
        """docs/NORMS.md"""
        for (_, scheme), ranks in self.ranks.items():
            for rank in ranks:
                self.assertEqual(rank["rounded"] > rank["elements"] / 4, scheme != "off")
                self.assertTrue(rank["resumed"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
