"""All eleven perf programs: that the values are right, what the tables say, groups, messages."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from programs import (ALL_COLLECTIVES, MESSAGES, ROOTED, UNCHECKED_IN_PLACE, checksums, library, rows,
                      run, run_processes)

SMALL = ("-b", "1K", "-e", "64K", "-f", "8", "-n", "3")
ONE = ("-b", "256K", "-e", "256K", "-n", "2")


def wrong(row):
    """(#wrong out of place, in place): from the end, as hypercube has no operation."""
    return row[-5], row[-1]


class Values(unittest.TestCase):
    def check(self, name, done):
        code, out, err = done
        self.assertEqual(code, 0, err)
        self.assertTrue(rows(out), out)
        in_place = "N/A" if name in UNCHECKED_IN_PLACE else "0"
        for row in rows(out):
            self.assertEqual(wrong(row), ("0", in_place), out)
        self.assertIn("# Out of bounds values : 0 OK", out)

    def test_of_threads_and_ranks_per_thread(self):
        for name in ALL_COLLECTIVES:
            for ranks in (("-t", 1), ("-t", 4), ("-g", 4), ("-t", 2, "-g", 2)):
                with self.subTest(name=name, ranks=ranks):
                    done = run(name, *ranks, *SMALL)
                    self.check(name, (done.returncode, done.stdout, done.stderr))

    def test_of_three_ranks(self):
        for name in ALL_COLLECTIVES:
            if name == "hypercube":
                continue
            with self.subTest(name=name):
                done = run(name, "-t", 3, "-b", 0, "-e", 1000, "-i", 70, "-n", 1)
                self.check(name, (done.returncode, done.stdout, done.stderr))

    def test_of_processes(self):
        for name in ALL_COLLECTIVES:
            with self.subTest(name=name):
                self.check(name, run_processes(name, 2, *SMALL, "-r", 1, "-d", "bfloat16")[0])

    def test_of_every_type(self):
        for name in ALL_COLLECTIVES:
            with self.subTest(name=name):
                done = run(name, "-t", 2, "-b", "4K", "-e", "4K", "-n", 1, "-d", "all")
                self.check(name, (done.returncode, done.stdout, done.stderr))
                self.assertEqual(len(rows(done.stdout)), 12)

    def test_of_every_root(self):
        for name in ROOTED:
            done = run(name, "-t", 3, "-b", "4K", "-e", "4K", "-n", 1, "-r", "all")
            self.check(name, (done.returncode, done.stdout, done.stderr))
            self.assertEqual([row[4] for row in rows(done.stdout)], ["0", "1", "2"])

    def test_of_every_operation(self):
        done = run("reduce", "-t", 3, "-b", "4K", "-e", "4K", "-n", 1, "-o", "all", "-r", 2)
        self.check("reduce", (done.returncode, done.stdout, done.stderr))
        self.assertEqual([row[3] for row in rows(done.stdout)],
                         ["sum", "prod", "max", "min", "avg", "mulsum"])

    def test_in_groups_of_calls(self):
        for name in ALL_COLLECTIVES:
            if name == "hypercube":
                continue
            with self.subTest(name=name):
                done = run(name, "-t", 2, *SMALL, "-m", 3, "-u", 1)
                self.check(name, (done.returncode, done.stdout, done.stderr))


class Tables(unittest.TestCase):
    def test_are_those_of_nccl_tests(self):
        # size, count, operation and root on 4 ranks, with -o max -r 1; 64 KiB of floats.
        share = ("65536", "4096")
        whole = ("65536", "16384")
        expected = {"all_reduce": (whole, "max", "-1"), "all_gather": (share, "none", "-1"),
                    "reduce_scatter": (share, "max", "-1"), "broadcast": (whole, "none", "1"),
                    "reduce": (whole, "max", "1"), "alltoall": (share, "none", "-1"),
                    # 16384 elements by distance: 2728, 5460, 8192 of them, in units of four.
                    "alltoallv": (("65520", "4096"), "none", "-1"), "gather": (share, "none", "1"),
                    "scatter": (share, "none", "1"), "sendrecv": (whole, "max", "-1"),
                    "hypercube": (share, None, "-1")}
        self.assertEqual(set(expected), set(ALL_COLLECTIVES))
        for name, (size, operation, root) in expected.items():
            with self.subTest(name=name):
                [row] = rows(run(name, "-t", 4, "-b", "64K", "-e", "64K", "-n", 1, "-o", "max",
                                 "-r", 1).stdout)
                columns = [*size, "float", *([operation] if operation else []), root]
                self.assertEqual(row[:len(columns)], columns)

    def test_bandwidths_are_those_of_nccl_tests(self):
        factors = {"all_reduce": 1.5, "broadcast": 1, "reduce": 1, "sendrecv": 1, "hypercube": 1}
        for name in ALL_COLLECTIVES:
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.json")
                run(name, "-t", 4, *ONE, "-J", path)
                with open(path, encoding="utf-8") as file:
                    [row] = json.load(file)["results"]
                place = row["out_of_place"]
                self.assertAlmostEqual(place["bus_bw"] / place["alg_bw"], factors.get(name, 0.75),
                                       places=5)
                moved = row["size"] * (0.75 if name == "hypercube" else 1)
                self.assertAlmostEqual(place["alg_bw"] * place["time"] * 1e3 / moved, 1, places=5)

    def test_what_cannot_be_run_is_refused(self):
        for name, arguments, reason in (
                ("hypercube", ("-t", 3), "a power of two of ranks, and there are 3"),
                ("broadcast", ("-t", 2, "-r", 2), "--root 2: there are 2 ranks")):
            done = run(name, *arguments, *SMALL)
            self.assertEqual(done.returncode, 1)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stdout, "")


class Groups(unittest.TestCase):
    def test_run_beside_each_other(self):
        # Reductions of two ranks, not four: with wrong groups #wrong would not be 0.
        for split in ("MOD 2", "DIV 2"):
            _, out, _ = run_processes("reduce_scatter", 4, *SMALL, env={"NCCL_TESTS_SPLIT": split})[0]
            groups = re.findall(r"#  Rank +(\d) Group +(\d)", out)
            color = {"MOD 2": lambda rank: rank % 2, "DIV 2": lambda rank: rank // 2}[split]
            self.assertEqual(groups, [(str(rank), str(color(rank))) for rank in range(4)])
            for row in rows(out):
                self.assertEqual(int(row[0]), 2 * 4 * int(row[1]))
                self.assertEqual(wrong(row), ("0", "0"))

    def test_may_differ_in_size(self):
        _, out, _ = run_processes("all_gather", 3, *SMALL, "--checksum",
                                  env={"NCCL_TESTS_SPLIT": "AND 2"})[0]
        self.assertTrue(rows(out), out)
        for row in rows(out):
            self.assertEqual(wrong(row), ("0", "0"))


class Traffic(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "matrix.txt")

    def run_matrix(self, text, *arguments, **variables):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        return run("alltoallv", "-t", 3, "-n", 1, *arguments,
                   env={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": self.path, **variables})

    def test_is_that_of_the_matrix(self):
        done = self.run_matrix("0 1600 3200\n16 0 0\n800 64 320\n", "-b", "8K", "-e", "8K",
                               NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        [row] = rows(done.stdout)
        self.assertEqual(row[:2], ["4800", "0"])
        self.assertEqual(wrong(row), ("0", "N/A"))
        self.assertEqual(re.findall(r"rank=(\d) send_bytes=(\d+) recv_bytes=(\d+)", done.stdout),
                         [("0", "4800", "816"), ("1", "16", "1664"), ("2", "1184", "3520")])

    def test_what_does_not_fit_is_refused(self):
        for text, arguments, reason in (
                ("0 1\n1 0\n", ("-b", "1K", "-e", "1K"), "has 2 rows, and there are 3 ranks"),
                ("0 1 2\n1 0 2\n", ("-b", "1K", "-e", "1K"), "not square"),
                ("0 64 64\n0 0 0\n0 0 0\n", ("-b", "64", "-e", "64"), "-e of at least 128"),
                ("0 64 64\n0 0 0\n0 0 0\n", ("-b", "1K", "-e", "2K"), "must be equal")):
            done = self.run_matrix(text, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stdout, "")


class OlderNccl(unittest.TestCase):
    def test_without_the_calls_of_2_28_messages_do(self):
        with open(library("terse/hostnccl/libnccl.so.2"), "rb") as file:
            text = file.read()
        for name in b"AlltoAll", b"Gather", b"Scatter":
            # Found by its hash, the symbol then has another name; pnccl... shares it.
            text = text.replace(b"nccl" + name + b"\0", b"none" + name + b"\0")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "libnccl.so.2")
            with open(path, "wb") as file:
                file.write(text)
            older = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout
            self.assertIn(" ncclAllGather\n", older)
            for name in "AlltoAll", "Gather", "Scatter":
                self.assertNotIn(f" nccl{name}\n", older)
            for name in "alltoall", "gather", "scatter":
                for extra in ((), ("-g", 2), ("-r", 1)):
                    done = run(name, "-t", 2, *SMALL, "--nccl", folder, *extra)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    for row in rows(done.stdout):
                        self.assertEqual(wrong(row)[0], "0")


class Compressed(unittest.TestCase):
    """By --scheme and, the same bytes, by the preload library."""

    def test_ratio_and_error_by_scheme(self):
        for name in ALL_COLLECTIVES:
            with self.subTest(name=name):
                done = run(name, "-t", 4, *ONE, "--scheme", "int8", "-r", 1)
                self.assertEqual(done.returncode, 0, done.stderr)
                [row] = rows(done.stdout)
                for ratio in row[-4:-2]:
                    self.assertGreater(float(ratio), 3)
                    self.assertLess(float(ratio), 4.5)
                for error in row[-2:-1] if name in UNCHECKED_IN_PLACE else row[-2:]:
                    self.assertGreater(float(error), 1e-4)
                    self.assertLess(float(error), 0.02)

    def test_the_preload_library_does_the_same(self):
        arguments = ("-t", 4, *ONE, "--data", "gauss", "-c", 0, "--checksum", "-r", 1)
        preload = {"LD_PRELOAD": library("libterse_nccl.so"), "TERSE_SCHEME":
                   ",".join(["allreduce", "allgather", "reducescatter", "alltoall", "broadcast",
                             "reduce", "gather", "scatter", "sendrecv"]) + " -> int4"}
        for name in ALL_COLLECTIVES:
            with self.subTest(name=name):
                sums = []
                for extra, env in (((), None), (("--scheme", "int4"), None), ((), preload)):
                    done = run(name, *arguments, *extra, env=env)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    sums.append(checksums(done.stdout))
                native, direct, preloaded = sums
                self.assertEqual(len(native), 4 if name in UNCHECKED_IN_PLACE else 8)
                self.assertNotEqual(direct, native)
                self.assertNotEqual(preloaded, native)
                if name not in MESSAGES:
                    self.assertEqual(preloaded, direct)


if __name__ == "__main__":
    unittest.main()
