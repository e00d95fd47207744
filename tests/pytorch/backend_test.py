"""torch.distributed on the backend hostnccl: backend_test.py PYTHON TERSE HOSTNCCL"""

import os
import subprocess
import sys
import tempfile
import unittest

from ranks import HERE, RanksTest

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]


def program(name, *arguments):
    return [PYTHON, os.path.join(HERE, name), *arguments]


class Backend(RanksTest):
    def expect_good(self, outputs):
        for output in outputs:
            self.assertEqual(output.splitlines()[-1:], ["good"], output)

    def test_values(self):
        for number in (1, 3, 4):
            with self.subTest(ranks=number):
                self.expect_good(self.play(number, program("collectives_rank.py")))

    def test_failures(self):
        self.expect_good(self.play(4, program("failures_rank.py"), killed=[3])[:3])

    def test_training(self):
        self.expect_good(self.play(2, program("training_rank.py", "exact")))

    def test_training_compressed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.expect_good(self.play(
                2, [TERSE, "run", "--scheme", "int8", "--nccl", HOSTNCCL, "--",
                    *program("training_rank.py", "compressed")], {"TERSE_REPORT": folder}))
            self.assertEqual(len(os.listdir(folder)), 2)
            report = subprocess.run([TERSE, "report", folder], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout
        for collective in ("AllReduce", "AllGather", "ReduceScatter"):
            self.assertRegex(report, f"(?i){collective}.*int8")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
