"""The perf programs with libterse: called directly by --scheme, and preloaded."""

import json
import pathlib
import tempfile
import unittest

from programs import COLLECTIVES, SAMPLE, checksums, library, rows, run, run_processes

ONE = ("-b", "256K", "-e", "256K", "-n", "2")


class Direct(unittest.TestCase):
    def test_ratio_and_error_columns(self):
        # An n-bit code and one parameter a block: close to 32 / n, and coarser for fewer bits.
        for collective in COLLECTIVES:
            for scheme, ratio, error in (("int8", 3.0, 0.02), ("int4", 5.5, 0.25)):
                with self.subTest(collective=collective, scheme=scheme):
                    done = run(collective, "-t", 4, *ONE, "--scheme", scheme)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    [row] = rows(done.stdout)
                    self.assertEqual((len(row), row[8], row[12]), (17, "N/A", "N/A"))
                    for value in row[13:15]:
                        self.assertGreater(float(value), ratio)
                        self.assertLess(float(value), ratio * 1.5)
                    for value in row[15:]:
                        self.assertGreater(float(value), error / 100)
                        self.assertLess(float(value), error)

    def test_the_report_of_the_same_run_has_the_same_error(self):
        # Also in place, where the loop's numbers grow, and what was rounded stays as it is.
        for scheme in "int8", "int4":
            with tempfile.TemporaryDirectory() as folder:
                done = run("all_reduce", "-t", 4, "-b", "256K", "-e", "256K", "-n", 4, "--scheme",
                           scheme, env={"TERSE_REPORT": folder, "TERSE_VERIFY": "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                [path] = pathlib.Path(folder).glob("*.json")
                report = json.loads(path.read_text())
            [row] = rows(done.stdout)
            shown = float(row[15])
            self.assertEqual(len(report["communicators"]), 4)
            for communicator in report["communicators"]:
                [kind] = communicator["rows"]
                error = kind["error"]
                self.assertGreater(error["calls"], 8)
                for which in "median", "p99", "worst":
                    self.assertAlmostEqual(error[which + "_relative"] / shown, 1, delta=0.05)
                self.assertLess(error["pooled_relative"], shown)

    def test_over_processes_and_groups(self):
        ranks = run_processes("all_reduce", 2, "-g", 2, *ONE, "--scheme", "int4")
        self.assertEqual([len(rows(out)) for _, out, _ in ranks], [1, 0])

    def test_off_is_exact(self):
        done = run("all_reduce", "-t", 3, *ONE, "--scheme", "off", "-c", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows(done.stdout)
        self.assertEqual((row[8], row[12]), ("0", "0"))
        self.assertEqual(row[13:15], ["1.00", "1.00"])

    def test_wrong_elements_of_a_lossy_scheme_are_shown_when_asked_and_no_failure(self):
        done = run("all_reduce", "-t", 2, *ONE, "--scheme", "int2", "-c", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows(done.stdout)
        self.assertGreater(float(row[8]), 0)

    def test_a_real_gradient(self):
        for collective in COLLECTIVES:
            done = run(collective, "-t", 4, "-n", 1, "--scheme", "int8", "--input", SAMPLE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(float(rows(done.stdout)[0][15]), 0.05)

    def test_a_bad_scheme_is_an_error(self):
        done = run("all_reduce", "-t", 2, *ONE, "--scheme", "int99")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("int99", done.stderr)


class Preloaded(unittest.TestCase):
    def test_gives_the_same_bytes_as_direct_calls(self):
        arguments = ("-t", 3, *ONE, "--data", "gauss", "-c", 0, "--checksum")
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                native = run(collective, *arguments)
                direct = run(collective, *arguments, "--scheme", "int4")
                preloaded = run(collective, *arguments,
                                env={"LD_PRELOAD": library("libterse_nccl.so"),
                                     "TERSE_SCHEME": "int4"})
                for done in (native, direct, preloaded):
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(checksums(preloaded.stdout), checksums(direct.stdout))
                self.assertNotEqual(checksums(preloaded.stdout), checksums(native.stdout))
                error = float(rows(preloaded.stdout)[0][13])
                self.assertAlmostEqual(error, float(rows(direct.stdout)[0][15]), places=6)


if __name__ == "__main__":
    unittest.main()
