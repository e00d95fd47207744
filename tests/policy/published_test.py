"""Forecasts of published training steps: called with the program `terse` and the folder of steps."""

import os
import re
import subprocess
import sys
import unittest

TERSE, STEPS = sys.argv[1:3]


def forecast_words(name):
    """What is forecast of a step, in words and by its parts."""
    done = subprocess.run([TERSE, "forecast", "--step", os.path.join(STEPS, name + ".toml")],
                          capture_output=True, text=True, check=True)
    return re.search(r"(?<=^step {7})(\S+) (m?s) native, (\S+) (m?s) compressed: \S+$", done.stdout,
                     re.MULTILINE)


def forecast(name):
    """(seconds natively, compressed) of a step."""
    words = forecast_words(name)
    unit = {"s": 1, "ms": 1e-3}
    return float(words[1]) * unit[words[2]], float(words[3]) * unit[words[4]]


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


class Readme(unittest.TestCase):
    def test_the_table_has_what_forecasts_say(self):
        with open(os.path.join(STEPS, "..", "..", "README.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| .*Gbit/s.* \| (\S+)x \| \**([\d.]+)x\** \| (\S+)x \| `(\S+)` \|$",
                              file.read(), re.MULTILINE)
        self.assertEqual(len(rows), 5)
        for *gains, profile in rows:
            for gain, dtype, scheme in zip(gains, ("fp32", "bf16", "bf16"), ("int8", "int8", "int4")):
                with self.subTest((profile, dtype, scheme)):
                    done = subprocess.run(
                        [TERSE, "forecast", "--ranks", "64", "--bytes", "256M", "--profile", profile,
                         "--dtype", dtype, "--schemes", scheme], capture_output=True, text=True, check=True)
                    predicted = re.search(r"([\d.]+)x\)?$", done.stdout)[1]
                    self.assertLessEqual(abs(float(predicted) - float(gain)), 0.0501)


class Predictions(unittest.TestCase):
    FOLDER = os.path.join(STEPS, "predictions")

    def test_the_table_has_what_forecasts_say(self):
        with open(os.path.join(self.FOLDER, "README.md"), encoding="ascii") as file:
            rows = re.findall(r"^\|.*\| `(\S+)` \| (\S+ m?s) \| (\S+ m?s) \| (\S+) \|$",
                              file.read(), re.MULTILINE)
        steps = {f[:-len(".toml")] for f in os.listdir(self.FOLDER) if f.endswith(".toml")}
        self.assertEqual({row[0] for row in rows}, steps - {"regions"})
        for name, native, compressed, ratio in rows:
            with self.subTest(name):
                line = forecast_words(os.path.join("predictions", name))
                self.assertEqual(line[0], f"{native} native, {compressed} compressed: {ratio}")

    def test_calls_by_number_of_ranks(self):
        with open(os.path.join(self.FOLDER, "README.md"), encoding="ascii") as file:
            rows = re.findall(r"^\| (\w+)(, simulated)? \| `(\w+)` \| (.+x) \|$", file.read(),
                              re.MULTILINE)
        self.assertEqual(len(rows), 8)
        for collective, simulated, scheme, gains in rows:
            for ranks, gain in zip((64, 256, 1024, 4096, 16384), gains.split(" | "), strict=True):
                if simulated and ranks > 1024:
                    continue  # half a minute
                with self.subTest((collective, simulated, scheme, ranks)):
                    done = subprocess.run(
                        [TERSE, "forecast", "--profile", "h800-8x-3200gbit", "--dtype", "bf16",
                         "--bytes", "1G", "--collective", collective.lower(), "--ranks", str(ranks),
                         "--schemes", scheme, *(["--simulate"] if simulated else [])],
                        capture_output=True, text=True, check=True)
                    self.assertEqual(re.search(r"([\d.]+x)\)?$", done.stdout)[1], gain)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
