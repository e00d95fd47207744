"""Every flag of nccl-tests' --help (2.19.6), short and long: it is done, or it is refused with a
reason and nothing runs."""

import json
import os
import re
import tempfile
import unittest

from programs import rows, run, run_processes

SMALL = ("-b", "1K", "-e", "4K", "-f", "2", "-n", "3")


def has(pattern):
    """The output has it."""
    def check(test, output):
        test.assertRegex(output, pattern)
    return check


def sizes(*expected):
    def check(test, output):
        test.assertEqual([int(row[0]) for row in rows(output)], list(expected))
    return check


def columns(count):
    def check(test, output):
        test.assertEqual({len(row) for row in rows(output)}, {count})
    return check


def header(setting):
    return has(f"(?m)^# nThread .* {re.escape(setting)}( |$)")


DONE = (
    ("-t", "--nthreads", "3", has("#  Rank  2 Group  0")),
    ("-g", "--ngpus", "3", has("#  Rank  2 Group  0")),
    ("-b", "--minbytes", "2K", sizes(2048, 4096)),
    ("-b", "--minbytes", "2KB", sizes(2048, 4096)),
    ("-e", "--maxbytes", "8K", sizes(1024, 2048, 4096, 8192)),
    ("-i", "--stepbytes", "1K", header("step: 2(factor)")),
    ("-f", "--stepfactor", "4", sizes(1024, 4096)),
    ("-n", "--iters", "2", header("iters: 2")),
    ("-m", "--agg_iters", "2", header("agg iters: 2")),
    ("-w", "--warmup_iters", "2", header("warmup iters: 2")),
    ("-N", "--run_cycles", "2", sizes(1024, 2048, 4096, 1024, 2048, 4096)),
    ("-p", "--parallel_init", "1", has("# Parallel Init Enabled")),
    ("-c", "--check", "2", header("validation: 2")),
    ("-c", "--check", "0", has(r"(?m)^ +1024 .* N/A +.* N/A$")),
    ("-o", "--op", "max", has(r"(?m)^ +1024 +256 +float +max +-1")),
    ("-o", "--op", "all", sizes(*(1024, 2048, 4096) * 6)),
    ("-d", "--datatype", "half", has(r"(?m)^ +1024 +512 +half +sum +-1")),
    ("-d", "--datatype", "all", sizes(*(1024, 2048, 4096) * 12)),
    ("-r", "--root", "1", sizes(1024, 2048, 4096)),
    ("-z", "--blocking", "1", has("# Blocking Enabled: wait and barrier after each inner")),
    ("-z", "--blocking", "2", has("# Blocking Enabled: wait after each inner iteration")),
    ("-z", "--blocking", "3", has("# Blocking Enabled: wait and barrier after each outer")),
    ("-y", "--stream_null", "1", sizes(1024, 2048, 4096)),
    ("-T", "--timeout", "60", sizes(1024, 2048, 4096)),
    ("-G", "--cudagraph", "0", header("graph: 0")),
    ("-C", "--report_cputime", "1", has("redop    root  cputime")),
    ("-a", "--average", "0", sizes(1024, 2048, 4096)),
    ("-a", "--average", "3", sizes(1024, 2048, 4096)),
    ("-R", "--local_register", "1", sizes(1024, 2048, 4096)),
    ("-R", "--local_register", "2", sizes(1024, 2048, 4096)),
    ("-x", "--cta_policy", "2", sizes(1024, 2048, 4096)),
    ("-D", "--device_implementation", "0", sizes(1024, 2048, 4096)),
    ("-V", "--device_cta_count", "32", sizes(1024, 2048, 4096)),
    ("-S", "--report_timestamps", "1", has(r"(?m)^ +1024 .* \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")),
    ("-M", "--memory", "1", has(r"(?m)^# Host memory usage    : Initialization \S+ [KMG]?B \| "
                                r"User-Allocated \S+ [KMG]?B \| Collective \S+ [KMG]?B \| "
                                r"Total  \S+ [KMG]?B$")),
    ("-u", "--unalign", "1", header("unalign: 1")),
    ("-I", "--per_iter_timing", "1", columns(21)),
    ("-K", "--per_iter_skip", "0", sizes(1024, 2048, 4096)),
)
REFUSED = (
    ("-G", "--cudagraph", "1", "do not capture graphs"),
    ("-D", "--device_implementation", "1", "no kernels of their own"),
    ("-V", "--device_cta_count", "129", "129"),
    ("-x", "--cta_policy", "3", "3"),
    ("-z", "--blocking", "4", "4"),
    ("-K", "--per_iter_skip", "3", "leaves no iteration"),
    ("-b", "--minbytes", "8K", "more than --maxbytes"),
    ("-b", "--minbytes", "1X", "not a size"),
    ("-d", "--datatype", "float32", "not a data type"),
    ("-o", "--op", "xor", "not an operation"),
    ("-r", "--root", "first", "not a rank"),
)
# -J and -h have tests of their own.
FLAGS = ("-t -g -b -e -i -f -n -m -w -N -p -c -o -d -r -z -y -T -G -C -S -J -a -R -x -D -V -M -u "
         "-I -K -h")


class Flags(unittest.TestCase):
    def test_are_all_here(self):
        here = {flag[0] for flag in DONE} | {"-J", "-h"}
        self.assertEqual(here, set(FLAGS.split()))

    def test_are_done(self):
        for short, long, value, check in DONE:
            for spelling in ((short, value), (short + value,), (long, value), (f"{long}={value}",)):
                with self.subTest(" ".join(spelling)):
                    ranks = () if short in ("-t", "-g") else ("-t", "2")
                    done = run("all_reduce", *ranks, *SMALL, *spelling)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn("# Out of bounds values : 0 OK", done.stdout)
                    check(self, done.stdout)

    def test_or_refused_with_the_reason(self):
        for short, long, value, reason in REFUSED:
            for spelling in ((short, value), (f"{long}={value}",)):
                with self.subTest(" ".join(spelling)):
                    done = run("all_reduce", "-t", 2, *SMALL, *spelling)
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn(reason, done.stderr)
                    self.assertIn("all_reduce_perf: ", done.stderr)

    def test_help_names_them_all(self):
        for spelling in "-h", "--help":
            done = run("broadcast", spelling)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for flag in [*DONE, ("-J", "--output_file")]:
                self.assertRegex(done.stdout, rf"(?m)^ +{flag[0]},\s*{flag[1]} ")

    def test_json_has_what_nccl_tests_write(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            done = run("broadcast", "-t", 2, *SMALL, "-r", 1, "--output_file", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(set(report), {"version", "start_time", "args", "env", "nccl_version",
                                       "config", "results", "out_of_bounds",
                                       "average_bus_bandwidth", "errors", "end_time"})
        self.assertLessEqual(
            {"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters",
             "iterations", "aggregated_iterations", "validation", "graph", "blocking_collectives",
             "per_iter_timing", "per_iter_skip", "parallel_init", "devices"},
            set(report["config"]))
        self.assertEqual(report["config"]["blocking_collectives"], "false")
        self.assertLessEqual({"rank", "group", "pid", "hostname", "device", "device_hex",
                              "device_info"}, set(report["config"]["devices"][1]))
        row = report["results"][0]
        self.assertLessEqual({"size", "count", "type", "redop", "root", "out_of_place", "in_place",
                              "actual_iterations", "experiment_name"}, set(row))
        self.assertEqual((row["root"], row["redop"]), ("     1", "none"))


    def test_json_has_the_times_of_each_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            run_processes("all_reduce", 2, "-t", 2, *SMALL, "-I", 1, "-J", path)
            with open(path, encoding="utf-8") as file:
                rows_of_json = json.load(file)["results"]
        for row in rows_of_json:
            for place in "out_of_place_per_iter", "in_place_per_iter":
                times = row[place]["per_process_max_times_us"]
                self.assertEqual([len(each) for each in times], [3, 3])
                self.assertEqual([max(pair) for pair in zip(*times)], row[place]["times_us"])


class Environment(unittest.TestCase):
    def test_the_least_bandwidth_decides(self):
        for least, code, word, okay in (("1e-9", 0, "OK", "true"), ("1e9", 1, "FAILED", "false")):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.json")
                done = run("all_reduce", "-t", 2, *SMALL, "-J", path,
                           env={"NCCL_TESTS_MIN_BW": least})
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertRegex(done.stdout, rf"(?m)^# Avg bus bandwidth    : \S+ {word}$")
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["average_bus_bandwidth"]["okay"], okay)

    def test_a_bad_one_is_named(self):
        for name, value in (("NCCL_TESTS_MIN_BW", "much"), ("NCCL_TESTS_SPLIT", "HALF 2"),
                            ("NCCL_TESTS_SPLIT_MASK", "x")):
            done = run("all_reduce", "-t", 2, *SMALL, env={name: value})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(name, done.stderr)
            self.assertEqual(rows(done.stdout), [])


if __name__ == "__main__":
    unittest.main()
