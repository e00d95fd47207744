"""bench/run: the plan, the table, the picture, and a short run of the whole."""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

from programs import BUILD, ROOT, fake_gpus, has_namespaces, no_gpus, planned

sys.path.insert(0, os.path.join(ROOT, "bench", "demo"))
import hosts  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position
import plan  # pylint: disable=wrong-import-position
import surroundings  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position
import tuning  # pylint: disable=wrong-import-position
from main import measure_all, parse_arguments  # pylint: disable=wrong-import-position
from measure import Result  # pylint: disable=wrong-import-position
from plot import plot  # pylint: disable=wrong-import-position


ALONE, SHARED = plan.LABS


def sample_results():
    results = {}
    for dtype in ("fp32", "bf16"):
        for size in (1 << 20, 16 << 20):
            case = plan.Case(ALONE, "all_reduce", "gauss", dtype, size)
            native = Result(size / 8e7, 1.2e8, 1.5 * size, 30 * size, 1e-8)
            results[case] = {"native": native,
                             "int4": Result(size / 4e8, 6e8, 0.2 * size, 4 * size, 0.1)}
    native = Result(1, 1.2e8, 1.75 * (64 << 20), 30, 1e-8)
    results[plan.Case(SHARED, "all_reduce", "gauss", "fp32", 64 << 20)] = {
        "native": native, "int8": Result(0.25, 5e8, 0.25 * (64 << 20), 4, 0.01)}
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

    def test_labs(self):
        self.assertEqual(parse_arguments([]).labs, (ALONE, SHARED))
        [one, other] = parse_arguments(["--labs", "8,2x4"]).labs
        self.assertEqual((one.hosts, one.ranks_per_host, one.ranks), (8, 1, 8))
        self.assertEqual((other.hosts, other.ranks_per_host, other.ranks), (2, 4, 8))
        for bad in ("", "1x4", "2x0", "x4", "2x4x2", "two"):
            with self.assertRaises(ValueError):
                plan.parse_lab(bad)

    def test_default_run_covers_everything(self):
        options = parse_arguments([])
        for lab, data in ((ALONE, {"gradient", "gauss"}), (SHARED, {"gauss"})):
            cases = plan.cases(lab, options)
            self.assertEqual({c.collective for c in cases}, set(plan.COLLECTIVES))
            self.assertEqual({c.dtype for c in cases}, {"fp32", "bf16"})
            self.assertEqual({c.data for c in cases}, data)
            self.assertIn(64 << 20, {c.size for c in cases})
        self.assertEqual(plan.schemes(ALONE, options), ("int8", "int4", "auto:error=0.12"))
        self.assertEqual(plan.schemes(SHARED, options),
                         ("int8", "int4", "int4:intra=int8,hadamard=32", "auto:error=0.12"))

    def test_a_quick_run_is_small(self):
        options = parse_arguments(["--quick"])
        self.assertEqual(len(plan.cases(ALONE, options)), 3)
        self.assertEqual([c.name for c in plan.cases(SHARED, options)],
                         ["all_reduce gauss fp32 16 MiB"])

    def test_options_are_for_all_labs(self):
        options = parse_arguments(["--quick", "--sizes", "2M", "--dtypes", "bf16", "--collectives",
                                   "all_gather", "--schemes", "int4:block=64,fit=mse,int8"])
        for lab in ALONE, SHARED:
            self.assertEqual(plan.schemes(lab, options), ("int4:block=64,fit=mse", "int8"))
            self.assertEqual([c.name for c in plan.cases(lab, options) if c.data == "gauss"],
                             ["all_gather gauss bf16 2 MiB"])

    def test_gradients_end_where_their_ranks_do(self):
        cases = plan.cases(plan.parse_lab("8"), parse_arguments([]))
        self.assertEqual({c.data for c in cases}, {"gauss"})

    def test_iterations_are_bounded(self):
        options = parse_arguments([])
        for size in (1, 1 << 20, 1 << 34):
            case = plan.Case(ALONE, "all_reduce", "gauss", "fp32", size)
            self.assertIn(plan.iterations(case, "native", options), range(2, 201))

    def test_rounds_take_turns_and_the_median_counts(self):
        taken = {"native": [5, 9, 4], "int4": [1, 3, 2]}
        order = []

        def play(_case, scheme, _options):
            order.append(scheme)
            return Result(taken[scheme].pop(0), 1, 1, 1, 0)
        case = plan.Case(ALONE, "all_reduce", "gauss", "fp32", 1 << 20)
        options = parse_arguments(["--labs", "4", "--rounds", "3", "--schemes", "int4"])
        with (unittest.mock.patch("plan.cases", return_value=[case]),
              unittest.mock.patch("main.measure", play),
              contextlib.redirect_stdout(io.StringIO())):
            results = measure_all(options)[case]
        self.assertEqual(order, ["native", "int4"] * 3)
        self.assertEqual({s: r.seconds for s, r in results.items()}, {"native": 5, "int4": 2})

    def test_the_sample_is_small_and_whole(self):
        sizes = [os.path.getsize(plan.GRADIENT.format(rank=r)) for r in range(4)]
        self.assertEqual(len(set(sizes)), 1)
        self.assertLessEqual(sum(sizes), 1.5 * 2**20)


class Report(unittest.TestCase):
    options = argparse.Namespace(rate=10**9, loopback=False)

    def test_table(self):
        text = table.summary(sample_results(), self.options, "a machine")
        self.assertIn("5.00x", text)  # faster
        self.assertIn("7.50x", text)  # fewer bytes
        self.assertIn("96%", text)  # of the link
        self.assertIn("on: a machine.", text)
        alone, shared, _ = text.split("\n\n")
        for title, section, scheme, rows in (("4 hosts:", alone, "int4", 4),
                                             ("2 hosts of 4 ranks:", shared, "int8", 1)):
            lines = section.splitlines()
            self.assertEqual(lines[0], title)
            self.assertIn(scheme, lines[1])
            self.assertEqual(len(lines), 4 + rows)
            self.assertEqual(len({len(line) for line in lines[1:]}), 1)
        self.assertIn("7.00x", shared)  # fewer bytes out of a host

    def test_table_of_a_scheme_that_is_wider_than_its_columns(self):
        long = "int4:block=64,round=stochastic,hadamard=32"
        results = {case: {"native": by["native"], long: by["int4"], "int4": by["int4"]}
                   for case, by in sample_results().items() if case.lab == ALONE}
        lines = table.summary(results, self.options, "a machine").splitlines()
        self.assertIn(long, lines[1])
        self.assertEqual(len({len(line) for line in lines[1:8]}), 1)

    def test_what_auto_took_is_below_the_table(self):
        results = {case: {"native": by["native"], "int4": by["int4"],
                          "auto": dataclasses.replace(by["int4"], chosen="int4",
                                                      predicted=2 * by["int4"].seconds)}
                   for case, by in sample_results().items() if case.lab == ALONE}
        [case, *others] = results
        for other in others:
            results[other]["auto"] = dataclasses.replace(results[other]["native"], chosen="native")
        lines = list(table.choices(results))
        self.assertEqual(lines, [f"{case.name}: auto took int4, predicted 5.24 ms, 2.00 times what "
                                 "it took"] + [f"{c.name}: auto took native" for c in others])
        self.assertEqual(list(table.verdict(results)), [
            "auto: at least 0.97 times as fast as native in 4 of 4 cases, the worst 1.00",
            "auto: where the best gains over 1.3x, within 10 % of it in 1 of 4, the worst 0.20",
            "auto: predicted within 15 % in 0 of 1, from 2.00 to 2.00 times what it took"])
        self.assertIn("\n\n" + "\n".join(lines) + "\n\n",
                      table.summary(results, self.options, "a machine"))

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
        text = plot(sample_results(), "4 hosts <over> 1 Gbit/s", "a & b")
        root = xml.etree.ElementTree.fromstring(text)
        words = " ".join(node.text or "" for node in root.iter())
        for word in ("4 hosts <over> 1 Gbit/s", "a & b", "native", "int4", "16 MiB", "bf16",
                     "times faster", "% of native", "4 hosts, bf16: speed-up over native",
                     "2 hosts of 4 ranks, fp32: bytes out of a host"):
            self.assertIn(word, words)
        self.assertNotIn("href", text)

    def test_no_caption_of_the_picture_is_cut_off(self):
        schemes = ["int4", "minmax8:block=1024,round=shift", "int4:block=64,round=stochastic,seed=1",
                   "minmax4:block=1024,round=stochastic"]
        results = {case: {**by, **{s: by["native"] for s in schemes}}
                   for case, by in sample_results().items()}
        footing = "A CPU of a long name, 2 cores; bench/run " + "--json some/folder/name.json " * 9
        root = xml.etree.ElementTree.fromstring(plot(results, "4 hosts", footing))
        width, height = float(root.get("width")), float(root.get("height"))
        lines = [node for node in root.iter() if node.get("text-anchor") == "start"]
        for node in lines:
            # Of the fonts that a browser may take the widest have some 0.6 of their size a letter.
            end = float(node.get("x")) + 0.6 * float(node.get("font-size")) * len(node.text)
            self.assertLess(end, width, node.text)
            self.assertLess(float(node.get("y")), height, node.text)
        said = " ".join(node.text for node in lines)
        for word in (*schemes, "int8", footing.strip()):
            self.assertIn(word, said)
        places = [(node.get("x"), node.get("y")) for node in lines]
        self.assertEqual(len(places), len(set(places)))


class Interrupted(Exception):
    pass


class Hosts(unittest.TestCase):
    ONE = plan.Placement(1)
    options = argparse.Namespace(rate=0, loopback=True)

    def test_what_is_exported_does_not_reach_what_is_measured(self):
        exported = {"TERSE_SCHEME": "int4", "TERSE_CHUNK_BYTES": "64K", "NCCL_HOSTID": "mine",
                    "LD_PRELOAD": surroundings.preload(BUILD), "NCCL_ALGO": "Ring"}
        with unittest.mock.patch.dict(os.environ, exported), hosts.Labs() as labs:
            said = labs.of(self.ONE, self.options).run("env", ["env"])["output"]
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        self.assertFalse([name for name in found if name.startswith(("TERSE_", "LD_PRELOAD"))])
        self.assertEqual((found["NCCL_HOSTID"], found["NCCL_ALGO"]), ("host0", "Ring"))

    def test_what_runs_ends_when_this_is_interrupted(self):
        def interrupt(*_):
            raise Interrupted
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))
        with tempfile.TemporaryDirectory() as folder:
            command = f"kill -USR1 {os.getpid()}; sleep 10; echo > {folder}/done"
            with self.assertRaises(Interrupted), hosts.Labs() as labs:
                labs.of(self.ONE, self.options).run("waiting", ["sh", "-c", command])
            self.assertEqual(os.listdir(folder), [])

    def test_the_library_that_is_preloaded(self):
        with tempfile.TemporaryDirectory(prefix="a blank") as folder:
            for build in folder, os.path.join(folder.replace(" ", "-"), "a:colon"):
                with self.assertRaisesRegex(surroundings.LibraryError, "a blank or a colon"):
                    surroundings.preload(build)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(surroundings.LibraryError, "is not there"):
                surroundings.preload(folder)
            os.mkdir(os.path.join(folder, "lib"))
            library = os.path.join(folder, "lib", "libterse_nccl.so")
            with open(library, "wb"):
                self.assertEqual(surroundings.preload(folder), library)

    def test_auto_without_a_report_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(tuning.MeasureError, "0 reports of rank 0"):
                tuning.choice(folder)


class Whole(unittest.TestCase):
    def test_help_needs_no_build(self):
        done = subprocess.run([os.path.join(ROOT, "bench", "run"), "--help"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0)
        for option in ("--quick", "--labs", "--rate", "--sizes", "--schemes", "--dtypes",
                       "--collectives", "--json", "--plot"):
            self.assertIn(option, done.stdout)

    def test_a_short_run(self):
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "x.json")
            picture = os.path.join(directory, "x.svg")
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--loopback",
                 "--labs", "2,2x2", "--quick", "--sizes", "256K", "--schemes", "int4", "--seconds",
                 "0.1", "--json", report, "--plot", picture],
                capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                results = json.load(file)
            xml.etree.ElementTree.parse(picture)
        self.assertEqual(results["mode"], "loopback")
        checks = results["statistics_checks"]
        self.assertEqual([check["ranks_per_host"] for check in checks], [1, 2])
        # Half of the message goes to the other host, twice, in an eighth of the bits.
        most = max(row["bytes"] for row in results["rows"])
        for check in checks:
            self.assertTrue(check["same_bytes_as_preloaded"])
            self.assertAlmostEqual(check["library_bytes_per_call"], most * 4.25 / 32, delta=512)
        int4 = [row for row in results["rows"] if row["scheme"] == "int4"]
        self.assertEqual({(row["data"], row["ranks_per_host"]) for row in int4},
                         {("gradient", 1), ("gauss", 1), ("gradient", 2), ("gauss", 2)})
        for row in int4:
            # Of the loopback interface, which other programs use, too.
            self.assertGreater(row["interface_bytes_per_call"], row["bytes"] / 8)
            self.assertAlmostEqual(row["relative_l2_error"], 0.13, delta=0.06)
        self.assertIn("LOOPBACK", done.stdout)
        self.assertEqual(done.stdout.count("and what stays on a host"), 1)
        self.assertIn("cpu", results["hardware"])

    def test_a_signal_ends_it(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            with subprocess.Popen(
                    [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--loopback",
                     "--labs", "2", "--quick"], stdout=subprocess.PIPE, text=True,
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as process:
                self.assertTrue(process.stdout.readline().startswith("=="))
                process.send_signal(number)
                process.stdout.read()
            self.assertEqual(process.returncode, 128 + number)

    def test_a_path_that_cannot_be_preloaded_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="a blank") as folder:
            os.symlink(BUILD, os.path.join(folder, "build"))
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={folder}/build", "--loopback",
                 "--labs", "2", "--quick", "--sizes", "64K", "--seconds", "0.1"],
                capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a blank or a colon is in it", done.stderr)

    # On a link on which native takes eight times as long.
    @unittest.skipUnless(has_namespaces(), "no right to make network namespaces here")
    def test_auto_tunes_the_lab_and_takes_what_is_faster_there(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.json")
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--labs", "2", "--rate",
                 "100mbit", "--collectives", "all_reduce", "--dtypes", "fp32", "--sizes", "1M",
                 "--schemes", "auto:error=0.2", "--seconds", "0.1", "--tune-seconds", "2", "--json",
                 path], capture_output=True, text=True, check=False, timeout=250)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                results = json.load(file)
        [row] = [row for row in results["rows"]
                 if row["scheme"] != "native" and row["data"] == "gauss"]
        self.assertIn(row["chosen"], ("bf16", "int8", "int6", "int4", "linear8"))
        self.assertGreater(row["predicted_seconds"], 0)
        self.assertGreater(row["interface_bytes_factor"], 1.8)
        self.assertIn(f"all_reduce gauss fp32 1 MiB: auto:error=0.2 took {row['chosen']}, predicted",
                      done.stdout)

    @unittest.skipUnless(has_namespaces(), "no right to make network namespaces here")
    def test_bytes_out_of_a_host_of_several_ranks(self):
        size = 4 << 20
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.json")
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--labs", "2x4",
                 "--dtypes", "fp32", "--sizes", "4M", "--schemes", "int4", "--seconds", "0.1",
                 "--json", path], capture_output=True, text=True, check=False, timeout=250)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                results = json.load(file)
        for row in results["rows"]:
            name = row["collective"].replace("_", "")
            out, native = planned(name, size, 8, 2, "int4")
            expected = native if row["scheme"] == "native" else out
            self.assertEqual((row["hosts"], row["ranks_per_host"]), (2, 4))
            # Headers and acknowledgements come on top.
            self.assertAlmostEqual(row["interface_bytes_per_call"] / expected, 1.02, delta=0.04)
        self.assertEqual(len(results["rows"]), 6)
        [check] = results["statistics_checks"]
        out, _ = planned("allreduce", size, 8, 2, "int4")
        self.assertEqual(check["library_bytes_per_call"], out)


if __name__ == "__main__":
    unittest.main()
