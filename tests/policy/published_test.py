"""Forecasts of published training steps: called with the program `terse` and the folder of steps."""

import os
import re
import subprocess
import sys
import unittest

TERSE, STEPS = sys.argv[1:3]


def forecast(name):
    """(seconds natively, compressed) of a step."""
    done = subprocess.run([TERSE, "forecast", "--step", os.path.join(STEPS, name + ".toml")],
                          capture_output=True, text=True, check=True)
    said = re.search(r"^step +(\S+) (m?s) native, (\S+) (m?s) compressed: ", done.stdout,
                     re.MULTILINE)
    unit = {"s": 1, "ms": 1e-3}
    return float(said[1]) * unit[said[2]], float(said[3]) * unit[said[4]]


class Published(unittest.TestCase):
    def near(self, value, published):
        self.assertLess(abs(value / published - 1), 0.15, (value, published))

    def test_gradients_alone(self):
        native, compressed = forecast("sdp4bit-gradients-32-a100")
        self.near(native, 0.379)
        self.near(compressed, 0.0459)
        self.near(native / compressed, 379 / 45.9)

    def test_steps(self):
        for name, published in (("sdp4bit-1.3b-64-a100", 2.39), ("sdp4bit-6.7b-64-a100", 3.44),
                                ("sdp4bit-18b-128-h800", 4.08)):
            with self.subTest(name):
                native, compressed = forecast(name)
                self.near(native / compressed, published)

    # What the folder's README says of the other one.
    def test_the_one_that_is_off(self):
        native, compressed = forecast("qsdp-1.3b-10gbit")
        self.assertAlmostEqual(native / compressed, 2.81, delta=0.02)

    def test_every_step_is_tried(self):
        self.assertEqual(len([f for f in os.listdir(STEPS) if f.endswith(".toml")]), 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
