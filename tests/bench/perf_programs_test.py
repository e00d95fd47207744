"""The perf programs as plain NCCL programs."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from programs import (BUILD, COLLECTIVES, SAMPLE, checksums, job, local_ranks, program, rows, run,
                      run_processes)

SMALL = ("-b", "1K", "-e", "64K", "-f", "8", "-n", "3")


def mpirun(rank, ranks, port):
    """What it sets, and where the ranks meet."""
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


class Output(unittest.TestCase):
    def test_every_line_has_the_form_of_nccl_tests(self):
        done = run("all_reduce", "-t", 2, *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        place = r"  [ \d.]{7}  [ \d.]{6}  [ \d.]{6}       0"
        golden = [
            r"# terse perf version \S+ nccl-headers=\d+ nccl-library=\d+",
            r"# Collective test starting: all_reduce_perf",
            r"# nThread 2 nGpus 1 minBytes 1024 maxBytes 65536 step: 8\(factor\) warmup iters: 1 "
            r"iters: 3 agg iters: 1 validation: 1 graph: 0 unalign: 0",
            r"#",
            r"# Using devices",
            r"#  Rank  0 Group  0 Pid +\d+ on +\S+ device  0 \[0000:00:00\] host memory",
            r"#  Rank  1 Group  0 Pid +\d+ on +\S+ device  1 \[0000:00:00\] host memory",
            r"#",
            r"# +out-of-place +in-place +",
            r"#       size         count      type   redop    root     time   algbw   busbw  #wrong"
            r"     time   algbw   busbw  #wrong ",
            r"#        \(B\)    \(elements\)                               \(us\)  \(GB/s\)  "
            r"\(GB/s\)             \(us\)  \(GB/s\)  \(GB/s\)         ",
            r"        1024           256     float     sum      -1" + 2 * place,
            r"        8192          2048     float     sum      -1" + 2 * place,
            r"       65536         16384     float     sum      -1" + 2 * place,
            r"# Out of bounds values : 0 OK",
            r"# Avg bus bandwidth    : [\d.e+-]+ ",
            r"#",
            r"# Collective test concluded: all_reduce_perf",
            r"#",
            r"",
        ]
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(golden), done.stdout)
        for line, pattern in zip(lines, golden):
            self.assertRegex(line, f"^{pattern}$")

    def test_count_and_size_columns_are_those_of_nccl_tests(self):
        for collective, count, op in (("all_reduce", "16384", "sum"),
                                      ("all_gather", "4096", "none"),
                                      ("reduce_scatter", "4096", "sum")):
            [row] = rows(run(collective, "-t", 4, "-b", "64K", "-e", "64K", "-n", 1).stdout)
            self.assertEqual(row[:5], ["65536", count, "float", op, "-1"])

    def test_busbw_is_algbw_times_the_factor(self):
        for collective, factor in (("all_reduce", 1.5), ("all_gather", 0.75),
                                   ("reduce_scatter", 0.75)):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "x.json")
                run(collective, "-t", 4, "-b", "1M", "-e", "1M", "-n", 2, "-J", path)
                with open(path, encoding="utf-8") as file:
                    place = json.load(file)["results"][0]["in_place"]
            self.assertAlmostEqual(place["bus_bw"] / place["alg_bw"], factor, places=5)
            self.assertAlmostEqual(place["alg_bw"] * place["time"], 2**20 / 1e3, delta=0.1)

    def test_json(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.json")
            for _ in range(2):
                done = run("all_reduce", "-t", 2, *SMALL, "-I", 1, "-J", path)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(directory)), ["x.json", "x.json.0"])
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(report["version"], 3)
        self.assertEqual(report["config"]["nthreads"], 2)
        self.assertEqual(len(report["config"]["devices"]), 2)
        self.assertEqual([row["size"] for row in report["results"]], [1024, 8192, 65536])
        self.assertEqual(report["results"][0]["in_place"]["nwrong"], 0)
        self.assertEqual(len(report["results"][0]["in_place_per_iter"]["times_us"]), 3)
        self.assertEqual(report["out_of_bounds"], {"count": 0, "okay": "true"})

    def test_one_place_alone(self):
        for place, other in (("out", "in"), ("in", "out")):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "x.json")
                done = run("all_reduce", "-t", 2, "-b", "1K", "-e", "1K", "-I", 1, "--place", place,
                           "-J", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(path, encoding="utf-8") as file:
                    report = json.load(file)
            names = {"out": "out_of_place", "in": "in_place"}
            self.assertNotIn(names[other], report["results"][0])
            measured = report["results"][0][names[place]]
            self.assertEqual(measured["nwrong"], 0)
            self.assertGreater(measured["bus_bw"], 0)
            self.assertAlmostEqual(report["average_bus_bandwidth"]["bandwidth"], measured["bus_bw"])
            cells = rows(done.stdout)[0][5:]
            first, second = cells[:8], cells[8:]
            measured, left_out = (first, second) if place == "out" else (second, first)
            self.assertEqual(left_out, ["N/A"] * 8)
            self.assertNotIn("N/A", measured)

    def test_the_plain_program_is_purely_nccl(self):
        # As ldd, which knows this machine's programs alone.
        needed = subprocess.run([program("all_reduce")], capture_output=True, text=True, check=True,
                                env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}).stdout
        self.assertIn(os.path.join("lib", "terse", "hostnccl", "libnccl.so.2"), needed)
        self.assertNotIn("libterse", needed)
        self.assertNotIn("libmpi", needed)


class Correctness(unittest.TestCase):
    def check(self, done):
        code, out, err = done
        self.assertEqual(code, 0, err)
        self.assertTrue(rows(out), out)
        for row in rows(out):
            # With -I four more columns follow each #wrong.
            self.assertEqual((row[8], row[12 if len(row) < 20 else 16]), ("0", "0"), out)

    def test_threads_and_ranks_per_thread(self):
        for collective in COLLECTIVES:
            for ranks in (("-t", 1), ("-t", 3), ("-g", 3), ("-t", 2, "-g", 2)):
                with self.subTest(collective=collective, ranks=ranks):
                    done = run(collective, *ranks, *SMALL)
                    self.check((done.returncode, done.stdout, done.stderr))

    def test_processes(self):
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                results = run_processes(collective, 3, *SMALL)
                self.check(results[0])
                for _, out, _ in results[1:]:
                    self.assertEqual(out, "")  # only rank 0 prints

    def test_processes_of_threads(self):
        self.check(run_processes("all_reduce", 2, "-t", 2, "-p", 1, *SMALL)[0])
        self.check(run_processes("reduce_scatter", 2, "-t", 2, "-g", 2, *SMALL)[0])

    def test_under_mpirun(self):
        self.check(run_processes("all_reduce", 2, *SMALL, launcher=mpirun)[0])

    def test_every_operation_and_type(self):
        done = run("all_reduce", "-t", 3, "-b", "4K", "-e", "4K", "-n", 1, "-o", "all", "-d", "all")
        self.check((done.returncode, done.stdout, done.stderr))
        self.assertEqual(len(rows(done.stdout)), 12 * 6)

    def test_an_average_over_a_power_of_two(self):
        done = run("all_reduce", "-t", 4, "-b", "4K", "-e", "4K", "-n", 1, "-o", "avg", "-d", "all")
        self.check((done.returncode, done.stdout, done.stderr))

    def test_the_other_options(self):
        for extra in (("-m", 3), ("-z", 1), ("-z", 2), ("-z", 3, "-I", 1), ("-u", 1), ("-y", 1),
                      ("-R", 1), ("-R", 2), ("-C", 1), ("-a", 0), ("-N", 2), ("-w", 0), ("-p", 1),
                      ("-c", 3)):
            with self.subTest(extra=extra):
                done = run("all_reduce", "-t", 2, *SMALL, *extra)
                self.check((done.returncode, done.stdout, done.stderr))

    def test_sizes_that_do_not_divide(self):
        for collective in COLLECTIVES:
            done = run(collective, "-t", 3, "-b", 0, "-e", 100, "-i", 7, "-n", 1)
            self.check((done.returncode, done.stdout, done.stderr))


class Data(unittest.TestCase):
    def test_input_adds_the_error_column(self):
        for collective in COLLECTIVES:
            for dtype, limit in (("float", 1e-6), ("bfloat16", 1e-2)):
                done = run(collective, "-t", 4, "--input", SAMPLE, "-n", 1, "-d", dtype)
                self.assertEqual(done.returncode, 0, done.stderr)
                [row] = rows(done.stdout)
                self.assertEqual((row[8], row[12]), ("N/A", "N/A"))
                for error in row[13:]:
                    self.assertLess(float(error), limit)
                self.assertEqual(len(row), 15)
                element = 4 if dtype == "float" else 2
                ranks = 4 if collective == "all_gather" else 1
                self.assertEqual(int(row[0]), 98304 * element * ranks)

    def test_input_over_processes(self):
        [row] = rows(run_processes("all_reduce", 2, "-t", 2, "--input", SAMPLE, "-n", 1)[0][1])
        self.assertLess(float(row[13]), 1e-6)

    def test_a_missing_file_is_named(self):
        done = run("all_reduce", "-t", 2, "--input", "/no/such/{rank}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/0", done.stderr)

    def test_checksums_are_the_same_on_all_ranks_and_each_time(self):
        def sums(*extra):
            done = run("all_reduce", "-t", 3, *SMALL, "--checksum", *extra)
            self.assertEqual(done.returncode, 0, done.stderr)
            return checksums(done.stdout)

        first = sums()
        self.assertEqual(len(first), 3 * 2 * 3)
        self.assertEqual(len({(size, value) for size, _, _, value in first}), 3)  # ranks and places agree
        self.assertEqual(sums(), first)
        self.assertNotEqual(sums("--seed", 5), first)

    def test_netdev_counts_bytes(self):
        _, out, _ = run_processes("all_reduce", 2, "-b", "1M", "-e", "1M", "-n", 3, "--netdev", "lo",
                                  env={"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"})[0]
        [row] = rows(out)
        self.assertEqual(len(row), 15)
        for sent in row[13:]:  # 2 (n-1)/n of a MiB, and headers, and what others send there
            self.assertGreater(float(sent), 2**20)


class Failures(unittest.TestCase):
    def test_usage(self):
        for arguments in (("-b", "1X"), ("--nonsense",), ("-d", "float99"), ("-G", "1")):
            done = run("all_reduce", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("all_reduce_perf: ", done.stderr)
        self.assertEqual(run("all_reduce", "--help").returncode, 0)

    def test_a_missing_process_ends_the_others(self):
        commands, environments = job("all_reduce", 2, *SMALL, "-T", 1)
        [(_, _, err)] = local_ranks.run(commands[:1], environments[:1], codes=(1,))
        self.assertIn("missing of the 2 processes: 1", err)

    def test_a_killed_process_ends_the_others(self):
        endless = job("all_reduce", 3, "-b", "1M", "-e", "1M", "-n", 10, "-N", 0)
        with local_ranks.running(*endless) as ranks:
            self.assertTrue(any(map(rows, ranks[0].stdout)))  # until its first row
            ranks[1].kill()
            results = local_ranks.finish(ranks, seconds=40, codes=None)
        for rank, (code, _, err) in enumerate(results):
            self.assertNotEqual(code, 0)
            if rank != 1:
                # By the lifeline, the rendezvous or NCCL: whichever notices first.
                self.assertIn("all_reduce_perf: process", err)

    def test_differing_command_lines_end(self):
        commands, environments = job("all_reduce", 2, *SMALL, "-T", 5)
        commands = [[*command, "-t", rank + 1] for rank, command in enumerate(commands)]
        for code, _, _ in local_ranks.run(commands, environments, codes=None):
            self.assertNotEqual(code, 0)


class OtherNccl(unittest.TestCase):
    LIBRARY = os.path.join(BUILD, "lib", "terse", "hostnccl", "libnccl.so.2")

    def loaded(self, path):
        done = run("all_reduce", "-t", 2, *SMALL, "--nccl", path, env={"LD_DEBUG": "libs"})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stderr

    def test_a_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = os.path.join(directory, "libnccl.so.2")
            shutil.copy(self.LIBRARY, copy)
            self.assertIn(f"calling init: {copy}", self.loaded(directory))
            self.assertIn(f"calling init: {copy}", self.loaded(copy))

    def test_a_file_of_another_name(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = os.path.join(directory, "my_nccl.so")
            shutil.copy(self.LIBRARY, copy)
            self.assertIn(f"calling init: {copy}", self.loaded(copy))

    def test_a_wrong_path(self):
        done = run("all_reduce", "--nccl", "/no/such/library")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/no/such/library", done.stderr)


if __name__ == "__main__":
    unittest.main()
