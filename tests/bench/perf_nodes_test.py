"""The perf programs where nodes have several ranks: what leaves a node is counted once a node."""

import json
import os
import tempfile
import unittest

from programs import has_namespaces, netlab, planned, program, rows

SIZE = 8 << 20


@unittest.skipUnless(has_namespaces(), "no right to make network namespaces here")
class TwoNodes(unittest.TestCase):
    def all_reduce(self, lab, *arguments):
        """(the table's row, the report's): of four ranks on two hosts, out of place."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "perf.json")
            done = netlab("--hosts", "2", *lab, "--quiet", "--", program("all_reduce"), "-b",
                          str(SIZE), "-e", str(SIZE), "-n", "2", "-w", "0", "-c", "0", "--netdev",
                          "eth0", "-J", path, *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("# Nodes: 2\n", done.stdout)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(report["config"]["nodes"], 2)
        [row] = rows(done.stdout)
        return row, report["results"][0]["out_of_place"]

    def check(self, lab, *arguments):
        out, native = planned("allreduce", SIZE, 4, 2, "int4")
        row, place = self.all_reduce(lab, *arguments)
        # Headers and acknowledgements come on top.
        self.assertAlmostEqual(place["netdev_bytes_per_call"] / native, 1, delta=0.02)
        self.assertAlmostEqual(float(row[-2]), place["netdev_bytes_per_call"], delta=1)
        self.assertIsNone(place["off_node_bytes_per_call"])
        row, place = self.all_reduce(lab, *arguments, "--scheme", "int4")
        self.assertAlmostEqual(place["netdev_bytes_per_call"] / out, 1, delta=0.05)
        self.assertEqual(place["off_node_bytes_per_call"], out)
        self.assertAlmostEqual(place["off_node_ratio"], native / out, places=6)
        # Of all that a rank sends two thirds stay on its node.
        self.assertEqual(row[13:17], [f"{32 / 4.25:.2f}"] * 2 + [f"{native / out:.2f}"] * 2)

    def test_processes_of_a_host(self):
        self.check(["--ranks-per-host", "2"])

    def test_threads_of_a_process(self):
        self.check([], "-t", "2")


if __name__ == "__main__":
    unittest.main()
