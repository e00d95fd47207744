"""bench/run: the plan, the table, the picture, and a short run of the whole."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from programs import BUILD, ROOT, fake_gpus, no_gpus

sys.path.insert(0, os.path.join(ROOT, "bench", "demo"))
import machine  # pylint: disable=wrong-import-position
import plan  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position
from main import parse_arguments  # pylint: disable=wrong-import-position
from measure import Result  # pylint: disable=wrong-import-position
from plot import plot  # pylint: disable=wrong-import-position


def sample_results():
    results = {}
    for dtype in ("fp32", "bf16"):
        for size in (1 << 20, 16 << 20):
            case = plan.Case("all_reduce", "gauss", dtype, size)
            native = Result(size / 8e7, 1.2e8, 1.5 * size, 30 * size, 1e-8)
            results[case] = {"native": native,
                             "int4": Result(size / 4e8, 6e8, 0.2 * size, 4 * size, 0.1)}
    return results


class Plan(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(plan.parse_size("16M"), 16 << 20)
        self.assertEqual(plan.parse_size("512K"), 512 << 10)
        self.assertEqual(plan.parse_size("100"), 100)
        self.assertEqual(plan.format_size(16 << 20), "16 MiB")
        for bad in ("", "M", "1X", "-1"):
            with self.assertRaises(ValueError):
                plan.parse_size(bad)

    def test_default_run_covers_everything(self):
        options = parse_arguments([])
        cases = plan.cases(options)
        self.assertEqual({c.collective for c in cases}, set(plan.COLLECTIVES))
        self.assertEqual({c.dtype for c in cases}, {"fp32", "bf16"})
        self.assertEqual({c.data for c in cases}, {"gradient", "gauss"})
        self.assertEqual(options.schemes, ["int8", "int4"])

    def test_gradients_end_where_their_ranks_do(self):
        cases = plan.cases(parse_arguments(["--hosts", "8"]))
        self.assertEqual({c.data for c in cases}, {"gauss"})

    def test_iterations_are_bounded(self):
        options = parse_arguments([])
        for size in (1, 1 << 20, 1 << 34):
            case = plan.Case("all_reduce", "gauss", "fp32", size)
            self.assertIn(plan.iterations(case, "native", options), range(2, 201))

    def test_the_sample_is_small_and_whole(self):
        sizes = [os.path.getsize(plan.GRADIENT.format(rank=r)) for r in range(4)]
        self.assertEqual(len(set(sizes)), 1)
        self.assertLessEqual(sum(sizes), 1.5 * 2**20)


class Report(unittest.TestCase):
    options = argparse.Namespace(hosts=4, rate=10**9, loopback=False)

    def test_table(self):
        text = table.summary(sample_results(), ["int4"], self.options, "a machine")
        self.assertIn("5.00x", text)  # faster
        self.assertIn("7.50x", text)  # fewer bytes
        self.assertIn("96%", text)  # of the link
        self.assertIn("on: a machine.", text)
        widths = {len(line) for line in text.splitlines()[:7]}
        self.assertEqual(len(widths), 1)

    def test_machine_without_gpus(self):
        with no_gpus():
            hardware = machine.describe()
        self.assertNotIn("gpus", hardware)
        hardware.update(cpu="A CPU", cores=2, system="Debian 12")
        self.assertEqual(machine.caption(hardware), "A CPU, 2 cores, Debian 12")

    def test_machine_with_gpus(self):
        with fake_gpus("NVIDIA H100", "NVIDIA L4", "NVIDIA H100"):
            hardware = machine.describe()
        self.assertEqual(hardware["gpus"], ["NVIDIA H100", "NVIDIA L4", "NVIDIA H100"])
        self.assertEqual(hardware["gpu_driver"], "580.65.06")
        hardware.update(cpu="A CPU", cores=2, system="Debian 12")
        self.assertEqual(machine.caption(hardware), "A CPU, 2 cores, 2 x NVIDIA H100, "
                                                    "1 x NVIDIA L4, driver 580.65.06, Debian 12")

    def test_picture_is_well_formed_and_says_it_all(self):
        text = plot(sample_results(), ["int4"], "4 hosts <over> 1 Gbit/s", "a & b")
        root = xml.etree.ElementTree.fromstring(text)
        words = " ".join(node.text or "" for node in root.iter())
        for word in ("4 hosts <over> 1 Gbit/s", "a & b", "native", "int4", "16 MiB", "bf16",
                     "times faster", "% of native"):
            self.assertIn(word, words)
        self.assertNotIn("href", text)

    def test_no_caption_of_the_picture_is_cut_off(self):
        schemes = ["int4", "minmax8:block=1024,round=shift", "int4:block=64,round=stochastic,seed=1",
                   "minmax4:block=1024,round=stochastic"]
        results = {case: {**by, **{s: by["int4"] for s in schemes}}
                   for case, by in sample_results().items()}
        footing = "A CPU of a long name, 2 cores; bench/run " + "--json some/folder/name.json " * 9
        root = xml.etree.ElementTree.fromstring(plot(results, schemes, "4 hosts", footing))
        width, height = float(root.get("width")), float(root.get("height"))
        lines = [node for node in root.iter() if node.get("text-anchor") == "start"]
        for node in lines:
            # Of the fonts that a browser may take the widest have some 0.6 of their size a letter.
            end = float(node.get("x")) + 0.6 * float(node.get("font-size")) * len(node.text)
            self.assertLess(end, width, node.text)
            self.assertLess(float(node.get("y")), height, node.text)
        said = " ".join(node.text for node in lines)
        for word in (*schemes, footing.strip()):
            self.assertIn(word, said)
        places = [(node.get("x"), node.get("y")) for node in lines]
        self.assertEqual(len(places), len(set(places)))


class Whole(unittest.TestCase):
    def test_help_needs_no_build(self):
        done = subprocess.run([os.path.join(ROOT, "bench", "run"), "--help"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0)
        for option in ("--quick", "--hosts", "--rate", "--sizes", "--schemes", "--dtypes",
                       "--collectives", "--json", "--plot"):
            self.assertIn(option, done.stdout)

    def test_a_short_run(self):
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "x.json")
            picture = os.path.join(directory, "x.svg")
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--loopback",
                 "--hosts", "2", "--quick", "--sizes", "256K", "--schemes", "int4", "--seconds",
                 "0.1", "--json", report, "--plot", picture],
                capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                results = json.load(file)
            xml.etree.ElementTree.parse(picture)
        self.assertEqual(results["mode"], "loopback")
        check = results["statistics_check"]
        self.assertTrue(check["same_bytes_as_preloaded"])
        # Half of the message goes to the other host, twice, in an eighth of the bits.
        most = max(row["bytes"] for row in results["rows"])
        self.assertLess(check["library_bytes_per_call"], most / 7)
        int4 = [row for row in results["rows"] if row["scheme"] == "int4"]
        self.assertEqual({row["data"] for row in int4}, {"gradient", "gauss"})
        for row in int4:
            # Of the loopback interface, which other programs use, too.
            self.assertGreater(row["interface_bytes_per_call"], row["bytes"] / 8)
            self.assertAlmostEqual(row["relative_l2_error"], 0.13, delta=0.06)
        self.assertIn("LOOPBACK", done.stdout)
        self.assertIn("cpu", results["hardware"])


if __name__ == "__main__":
    unittest.main()
