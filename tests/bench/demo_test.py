"""bench/run: the plan, the table, the picture, and a short run of the whole."""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

from programs import BUILD, ROOT, fake_gpus, has_namespaces, no_gpus, planned
from marks import comes_true, end, marked, new_mark  # pylint: disable=wrong-import-order

sys.path.insert(0, os.path.join(ROOT, "bench", "demo"))
import hosts  # pylint: disable=wrong-import-position
import libraries  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position
import main  # pylint: disable=wrong-import-position
import measure  # pylint: disable=wrong-import-position
import outcome as outcomes  # pylint: disable=wrong-import-position
import plan  # pylint: disable=wrong-import-position
import surroundings  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position
import tuning  # pylint: disable=wrong-import-position
from main import parse_arguments  # pylint: disable=wrong-import-position
from measure import Result  # pylint: disable=wrong-import-position
from outcome import Outcome  # pylint: disable=wrong-import-position
from plot import plot  # pylint: disable=wrong-import-position


ALONE, SHARED = plan.LABS


def sample_results():
    results = {}
    for dtype in ("fp32", "bf16"):
        for size in (1 << 20, 16 << 20):
            case = plan.Case(ALONE, "all_reduce", "gauss", dtype, size)
            native = Result(size / 8e7, 20, 1.5 * size, 30 * size, 1e-8)
            results[case] = {"native": native,
                             "int4": Result(size / 4e8, 90, 0.2 * size, 4 * size, 0.1)}
    native = Result(1, 3, 1.75 * (64 << 20), 30, 1e-8)
    results[plan.Case(SHARED, "all_reduce", "gauss", "fp32", 64 << 20)] = {
        "native": native, "int8": Result(0.25, 6, 0.25 * (64 << 20), 4, 0.01)}
    return results


def fake_build(folder, program="exit 9"):
    """A build directory with a library of terse's, and perf programs that are this script."""
    path = os.path.join(folder, "bin", "all_reduce_perf")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{program}\n")
    os.chmod(path, 0o755)
    for name in "libterse_nccl.so", "terse/hostnccl/libnccl.so.2":
        path = os.path.join(folder, "lib", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(name)
    os.symlink(os.path.join(BUILD, "lib", "libterse.so"),
               os.path.join(folder, "lib", "libterse.so"))
    return folder


def version():
    """As the header tells it."""
    with open(os.path.join(ROOT, "include", "terse", "terse.h"), encoding="utf-8") as file:
        numbers = re.findall(r"define TERSE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read())
    return "terse " + ".".join(numbers)


def what_demo_builds(folder):
    """A build directory with what the target `demo` builds, by which bench/run builds, and no more."""
    made = set()
    for question in ("query", "bench/demo"), ("inputs", "demo"):
        done = subprocess.run(["ninja", "-C", BUILD, "-t", *question], check=True,
                              capture_output=True, text=True)
        made.update(re.findall(r"^ *((?:bin|lib)/\S+)$", done.stdout, re.MULTILINE))
    for name in made:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.path.join(BUILD, name), path)
    return folder


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
        for bad in ("", "1", "1x1", "2x0", "x4", "2x4x2", "two", "251", "300", "2x65"):
            with self.assertRaises(ValueError):
                plan.parse_lab(bad)
        self.assertEqual(plan.parse_lab("250x64").ranks, 16000)  # netlab takes it
        self.assertEqual(plan.parse_lab("1x4").hosts, 1)

    def test_what_cannot_be_measured_is_refused(self):
        for arguments, said in ((["--seconds", "nan"], "'nan' is not from 0"),
                                (["--seconds", "inf"], "'inf' is not from 0"),
                                (["--tune-seconds", "nan"], "'nan' is not from 0"),
                                (["--labs", "4,300"], "'300' is no lab of at most 250 hosts"),
                                (["--rate", "0.5"], "'0.5' cannot be shaped"),
                                (["--schemes", "int8,native"], "native, which need not be named")):
            with (self.assertRaises(SystemExit) as ended,
                  contextlib.redirect_stderr(io.StringIO()) as error):
                parse_arguments(arguments)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(said, error.getvalue())

    def test_what_is_named_twice_is_measured_once(self):
        options = parse_arguments(["--labs", "2,2x1", "--schemes", "int8,int4,int8", "--sizes",
                                   "1M,1024K", "--collectives", "all_reduce,all_reduce",
                                   "--dtypes", "fp32,fp32"])
        self.assertEqual(options.labs, (plan.Placement(2),))
        self.assertEqual(options.schemes, ("int8", "int4"))
        cases = plan.cases(options.labs[0], options)
        self.assertEqual([case.data for case in cases], ["gradient", "gauss"])

    def test_a_usual_run_is_of_one_collective(self):
        options = parse_arguments([])
        self.assertEqual([c.name for c in plan.cases(ALONE, options)],
                         [f"all_reduce {data} {dtype} {size}" for dtype, gradient in
                          (("fp32", "384 KiB"), ("bf16", "192 KiB")) for data, size in
                          (("gradient", gradient), ("gauss", "1 MiB"), ("gauss", "64 MiB"))])
        self.assertEqual([c.name for c in plan.cases(SHARED, options)],
                         ["all_reduce gauss fp32 64 MiB"])

    def test_all_is_everything(self):
        options = parse_arguments(["--all"])
        for lab, data in ((ALONE, {"gradient", "gauss"}), (SHARED, {"gauss"})):
            cases = plan.cases(lab, options)
            self.assertEqual({c.collective for c in cases}, set(plan.COLLECTIVES))
            self.assertEqual({c.dtype for c in cases}, {"fp32", "bf16"})
            self.assertEqual({c.data for c in cases}, data)
            self.assertIn(64 << 20, {c.size for c in cases})

    def test_schemes_are_those_that_the_hosts_can_use(self):
        for extent in [], ["--quick"], ["--all"]:
            options = parse_arguments(extent)
            self.assertEqual(plan.schemes(ALONE, options), ("int8", "int4", "auto:error=0.12"))
            self.assertEqual(plan.schemes(SHARED, options),
                             ("int8", "int4", "int4:intra=int8,hadamard=32", "auto:error=0.12"))

    def test_a_quick_run_is_small(self):
        options = parse_arguments(["--quick"])
        self.assertEqual(len(plan.cases(ALONE, options)), 3)
        self.assertEqual([c.name for c in plan.cases(SHARED, options)],
                         ["all_reduce gauss fp32 16 MiB"])

    def test_quick_and_all_exclude_each_other(self):
        with (self.assertRaises(SystemExit) as ended,
              contextlib.redirect_stderr(io.StringIO()) as said):
            parse_arguments(["--quick", "--all"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("not allowed with argument --quick", said.getvalue())

    def test_a_lab_is_tuned_for_what_is_measured_there(self):
        for arguments, lab, dtypes, collectives in (
                ([], ALONE, "float32,bfloat16", "allreduce"), ([], SHARED, "float32", "allreduce"),
                (["--all"], SHARED, "float32,bfloat16", "allreduce,allgather,reducescatter"),
                (["--dtypes", "fp16"], SHARED, "float16", "allreduce")):
            options = parse_arguments(arguments)
            options.hosts = unittest.mock.Mock()
            tuning.tune(lab, options, "profile.toml")
            [call] = options.hosts.of(lab, options).run.call_args_list
            program = call.args[1]
            self.assertEqual(program[program.index("--dtypes") + 1], dtypes)
            self.assertEqual(program[program.index("--collectives") + 1], collectives)

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
        for size, native, int4 in ((1, 200, 200), (1 << 20, 68, 120), (64 << 20, 3, 6),
                                   (1 << 34, 3, 6)):
            case = plan.Case(ALONE, "all_reduce", "gauss", "fp32", size)
            self.assertEqual(plan.iterations(case, "native", options), native)
            self.assertEqual(plan.iterations(case, "int4", options), int4)

    def limits(self, size, *arguments):
        """Of a measurement: its calls, and the seconds after which the program ends itself, and
        netlab ends it."""
        options = parse_arguments([*arguments, "--build-dir", "/build"])
        options.hosts = unittest.mock.Mock()
        run = options.hosts.of.return_value.run
        run.side_effect = Interrupted
        case = plan.Case(ALONE, "all_reduce", "gauss", "fp32", size)
        with self.assertRaises(Interrupted):
            measure.measure(case, "native", options)
        _, program, _, timeout = run.call_args.args
        return (*(int(program[program.index(name) + 1]) for name in ("-n", "-T")), timeout)

    def test_what_takes_long_is_not_taken_to_hang(self):
        _, own, timeout = self.limits(1 << 20)
        self.assertIn(own, range(300, 400))
        self.assertGreater(timeout, own)
        for size, bits, *arguments in ((512 << 20, 10**9, "--seconds", "900"),
                                       (64 << 20, 10**6, "--rate", "1mbit"), (64 << 30, 10**9),
                                       (64 << 30, 10**9, "--rate", "0")):
            calls, own, timeout = self.limits(size, *arguments)
            needed = (calls + 2) * size * 8 * 1.5 / bits
            self.assertGreater(own, needed, arguments)
            self.assertGreater(timeout, own)

    def test_a_tuning_that_takes_long_is_not_taken_to_hang(self):
        for dtypes in ("fp32", "fp32,bf16"):
            options = parse_arguments(["--tune-seconds", "2000", "--dtypes", dtypes])
            options.hosts = unittest.mock.Mock()
            tuning.tune(ALONE, options, "profile.toml")
            [call] = options.hosts.of(ALONE, options).run.call_args_list
            limit = int(call.args[1][call.args[1].index("-T") + 1])
            self.assertGreater(limit, 2000)
            self.assertGreater(call.kwargs["timeout"], limit)

    def test_rounds_take_turns_and_the_median_counts(self):
        taken = {"native": [5, 9, 4], "int4": [1, 3, 2]}
        order = []

        def play(_case, scheme, _options):
            order.append(scheme)
            return Result(taken[scheme].pop(0), 9, 1, 1, 0)
        case = plan.Case(ALONE, "all_reduce", "gauss", "fp32", 1 << 20)
        options = parse_arguments(["--labs", "4", "--rounds", "3", "--schemes", "int4"])
        outcome = Outcome("", {}, {})
        with (unittest.mock.patch("plan.cases", return_value=[case]),
              unittest.mock.patch("main.measure", play),
              contextlib.redirect_stdout(io.StringIO())):
            main.measure_all(options, outcome.measured)
        self.assertEqual(order, ["native", "int4"] * 3)
        self.assertEqual({s: r.seconds for s, r in outcome.results()[case].items()},
                         {"native": 5, "int4": 2})

    def test_the_sample_is_small_and_whole(self):
        sizes = [os.path.getsize(plan.GRADIENT.format(rank=r)) for r in range(4)]
        self.assertEqual(len(set(sizes)), 1)
        self.assertLessEqual(sum(sizes), 1.5 * 2**20)


class Report(unittest.TestCase):
    options = argparse.Namespace(rate=10**9, loopback=False)

    def test_a_row_of_json_is_a_line(self):
        for report, lines in (({"a": 1, "rows": [{"b": 2, "c": 0.5}, {"b": 3}]},
                               ['{', ' "a": 1,', ' "rows": [', '  {"b": 2, "c": 0.5},', '  {"b": 3}', ' ]', '}']),
                              ({"rows": [], "d": {"e": 1}}, ['{', ' "rows": [],', ' "d": {"e": 1}', '}'])):
            text = outcomes.text(report)
            self.assertEqual(text.splitlines(), lines)
            self.assertEqual(json.loads(text), report)

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

    def check(self, lab, loopback, excess):
        """What is said to be the cause of so many bytes more than the library's."""
        direct = Result(1, 3, 1e6 * (1 + excess), 0, 0, library_bytes=1e6)
        case = plan.Case(lab, "all_reduce", "gauss", "fp32", 1 << 20)
        said = table.statistics_check(case, "int8", direct, direct,
                                      argparse.Namespace(loopback=loopback))
        return re.search(r"%: packet headers and acknowledgements(.*)\)\.", said)[1]

    def test_others_use_the_loopback_interface_too(self):
        others = ", and what others sent"
        self.assertEqual(self.check(ALONE, True, 0.02), "")
        self.assertEqual(self.check(ALONE, True, 0.12), others)
        self.assertEqual(self.check(ALONE, False, 0.12), "")
        self.assertEqual(self.check(SHARED, True, 0.02), ", and what stays on a host")
        self.assertEqual(self.check(SHARED, True, 2), ", and what stays on a host" + others)

    def test_the_share_of_a_link_is_of_what_crossed_it(self):
        result = Result(2, 3, 10**8, 0, 0)
        self.assertEqual(table.link_share(result, self.options), 0.4)
        self.assertIsNone(table.link_share(result, argparse.Namespace(rate=0)))
        self.assertIsNone(table.link_share(dataclasses.replace(result, interface_bytes=None),
                                           self.options))

    def test_processors_of_one_name_are_told_apart(self):
        avx2 = ("fpu sse2 pni ssse3 sse4_1 sse4_2 cx16 popcnt lahf_lm avx avx2 fma f16c movbe abm "
                "bmi1 bmi2")
        avx512 = f"{avx2} avx512f avx512bw avx512cd avx512dq avx512vl"
        info = "processor : 0\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC\nstepping : 1\n"
        seen = []
        for text, flags in ((info, avx2), (info.replace("model : 1", "model : 2"), avx2),
                            (info.replace("25", "26"), avx512)):
            opened = unittest.mock.mock_open(read_data=f"{text}flags : {flags}\n")
            with unittest.mock.patch("machine.open", opened, create=True):
                seen.append(machine.processor())
        self.assertEqual(seen[0], {"cpu": "AMD EPYC", "cpu_family": "25", "cpu_model": "1",
                                   "cpu_stepping": "1", "isa": "avx2"})
        self.assertEqual(seen[1], {**seen[0], "cpu_model": "2"})
        self.assertEqual(seen[2], {**seen[0], "cpu_family": "26", "isa": "avx512"})
        self.assertLessEqual(seen[0].keys(), machine.describe().keys())
        # As the codec has it: all of a level, or the one below.
        for flags, isa in ((avx2.replace("f16c", ""), "sse2"), ("", "unknown"),
                           (avx512.replace("avx512vl", ""), "avx2")):
            self.assertEqual(machine.isa(flags.split()), isa)

    def test_what_was_measured_has_a_version(self):
        with tempfile.TemporaryDirectory() as folder:
            versions = [libraries.versions(fake_build(folder))]
            self.assertEqual(versions[0]["terse"], version())
            for name in "libterse_nccl.so", "terse/hostnccl/libnccl.so.2":
                with open(os.path.join(folder, "lib", name), "a", encoding="ascii") as file:
                    file.write(" of another build")
                versions.append(libraries.versions(folder))
        first, other, third = versions
        self.assertNotEqual(other["library"], first["library"])
        self.assertEqual(other["transport"], first["transport"])
        self.assertNotEqual(third["transport"], first["transport"])
        self.assertEqual(third["library"], other["library"])

    def test_a_build_without_terse_is_refused(self):
        with (tempfile.TemporaryDirectory() as folder,
              self.assertRaisesRegex(surroundings.LibraryError, "libterse.so is not there")):
            libraries.versions(folder)

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

    def test_a_look_at_what_is_possible_here_is_not_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            probe = os.path.join(folder, "netlab")
            with open(probe, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\ncd {folder}\ntrap 'echo > removed; exit 143' TERM\n"
                           "echo > begun\nwhile :; do sleep 0.1; done\n")
            os.chmod(probe, 0o755)

            def interrupt(*_, **__):
                comes_true(lambda: "begun" in os.listdir(folder))
                raise Interrupted
            with (unittest.mock.patch("surroundings.NETLAB", probe),
                  unittest.mock.patch("subprocess.Popen.communicate", interrupt),
                  self.assertRaises(Interrupted)):
                surroundings.shapes_links()
            self.assertIn("removed", os.listdir(folder))

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


class Early(unittest.TestCase):
    """What was measured is told, however it ends."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = fake_build(folder.name)
        self.json, self.svg = (os.path.join(folder.name, name) for name in ("x.json", "x.svg"))
        for number in signal.SIGTERM, signal.SIGHUP:
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def run_it(self, ends, after, schemes="int8,int4"):
        """The exit code and what is printed, where so many measurements come before that end."""
        taken = []

        def play(case, scheme, options, direct=False):
            if len(taken) == after:
                ends()
            taken.append(scheme)
            return Result(8.0 / len(taken), plan.iterations(case, scheme, options), 1e6, 9e6, 0.1,
                          library_bytes=9e5 if direct else None)
        arguments = ["bench/run", "--loopback", "--labs", "2", "--sizes", "1M,64M", "--schemes",
                     schemes, "--collectives", "all_reduce", "--dtypes", "fp32", "--json",
                     self.json, "--plot", self.svg, "--build-dir", self.build]
        with (unittest.mock.patch("main.measure", play), unittest.mock.patch("sys.argv", arguments),
              contextlib.redirect_stdout(io.StringIO()) as said,
              contextlib.redirect_stderr(said)):
            try:
                code = main.main()
            except SystemExit as ended:
                code = ended.code
        return code, said.getvalue()

    def report(self):
        with open(self.json, encoding="utf-8") as file:
            report = json.load(file)
        with open(self.svg, encoding="utf-8") as file:
            return report, " ".join(node.text or "" for node in
                                    xml.etree.ElementTree.parse(file).getroot().iter())

    def test_whole(self):
        code, said = self.run_it(None, None)
        report, picture = self.report()
        self.assertEqual(code, 0)
        self.assertTrue(report["whole"])
        self.assertEqual(report["versions"], libraries.versions(self.build))
        self.assertEqual([row["calls"] for row in report["rows"][-3:]], [17, 34, 34])
        for text in said, picture:
            self.assertNotIn("NOT WHOLE", text)

    def test_where_no_scheme_can_be_called_by_name_nothing_is_checked(self):
        code, said = self.run_it(None, None, schemes="safe,fast")
        report, _ = self.report()
        self.assertEqual((code, report["whole"]), (0, True))
        self.assertEqual({row["scheme"] for row in report["rows"]}, {"native", "safe", "fast"})
        self.assertEqual(report["statistics_checks"], [])
        self.assertNotIn("NOT WHOLE", said)

    def failing(self):
        raise hosts.HostsError("oh dear")

    def interrupted(self):
        raise KeyboardInterrupt

    def test_all_that_was_measured_is_told(self):
        for ends, expected in ((self.failing, 1), (self.interrupted, 130),
                               (lambda: signal.raise_signal(signal.SIGTERM), 143)):
            for after in range(1, 10):
                with self.subTest(expected=expected, after=after):
                    code, said = self.run_it(ends, after)
                    report, picture = self.report()
                    self.assertEqual(code, expected)
                    self.assertEqual(
                        [row["scheme"] for row in report["rows"]],
                        (["native", "int8", "int4"] * 3)[:after])
                    self.assertFalse(report["whole"])
                    self.assertEqual(report["statistics_checks"], [])
                    for text in said, picture:
                        self.assertIn("NOT WHOLE", text)
                    self.assertEqual("oh dear" in said, expected == 1)

    def test_what_is_there_stays_where_nothing_was_measured(self):
        with open(self.json, "w", encoding="utf-8") as file:
            file.write("of another run")
        self.assertEqual(self.run_it(self.failing, 0)[0], 1)
        with open(self.json, encoding="utf-8") as file:
            self.assertEqual(file.read(), "of another run")
        self.assertFalse(os.path.exists(self.svg))

    def test_where_nothing_can_be_written_nothing_is_measured(self):
        for option in "--json", "--plot":
            with (self.assertRaises(SystemExit) as ended,
                  contextlib.redirect_stderr(io.StringIO()) as said):
                parse_arguments([option, "/no/such/folder/x"])
            self.assertEqual(ended.exception.code, 2)
            self.assertIn("cannot write /no/such/folder/x: No such file", said.getvalue())


class Whole(unittest.TestCase):
    def test_help_needs_no_build(self):
        done = subprocess.run([os.path.join(ROOT, "bench", "run"), "--help"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0)
        for option in ("--quick", "--all", "--labs", "--rate", "--sizes", "--schemes", "--dtypes",
                       "--collectives", "--json", "--plot"):
            self.assertIn(option, done.stdout)

    def test_a_short_run(self):
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "x.json")
            picture = os.path.join(directory, "x.svg")
            done = subprocess.run(
                [os.path.join(ROOT, "bench", "run"),
                 f"--build-dir={what_demo_builds(os.path.join(directory, 'build'))}", "--loopback",
                 "--labs", "2,2x2", "--quick", "--sizes", "256K", "--schemes", "auto,int4",
                 "--seconds", "0.1", "--tune-seconds", "1", "--json", report, "--plot", picture],
                capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                results = json.load(file)
            xml.etree.ElementTree.parse(picture)
        self.assertEqual((results["mode"], results["whole"]), ("loopback", True))
        self.assertEqual(set(results["versions"]), {"terse", "library", "transport"})
        self.assertIn(results["hardware"]["isa"], ("sse2", "avx2", "avx512"))
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
        for row in results["rows"]:
            self.assertGreaterEqual(row["calls"], 3 if row["scheme"] == "native" else 6)
            self.assertIsNone(row["link_share"])
        for row in int4:
            # Of the loopback interface, which other programs use, too.
            self.assertGreater(row["interface_bytes_per_call"], row["bytes"] / 8)
            self.assertAlmostEqual(row["relative_l2_error"], 0.13, delta=0.06)
        self.assertIn("LOOPBACK", done.stdout)
        self.assertEqual(done.stdout.count("and what stays on a host"), 1)
        self.assertIn("cpu", results["hardware"])

    def test_a_signal_ends_it(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            mark = new_mark()
            with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                    [os.path.join(ROOT, "bench", "run"),
                     f"--build-dir={fake_build(folder, 'exec sleep 64')}", "--loopback", "--labs",
                     "2", "--quick"], stdout=subprocess.PIPE, text=True,
                    env={**os.environ, **dict([mark.split("=")])},
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as process:
                self.addCleanup(end, process)
                self.assertTrue(process.stdout.readline().startswith("=="))
                self.assertTrue(comes_true(lambda: marked(mark).count("sleep\x0064\0") == 2))
                process.send_signal(number)
                process.stdout.read()
            self.assertEqual(process.returncode, 128 + number)
            self.assertEqual(marked(mark), [])

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
                [os.path.join(ROOT, "bench", "run"), f"--build-dir={BUILD}", "--all", "--labs", "2x4",
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
            self.assertAlmostEqual(row["link_share"] * row["seconds"] * 10**9,
                                   8 * row["interface_bytes_per_call"], delta=8)
        self.assertEqual(len(results["rows"]), 6)
        [check] = results["statistics_checks"]
        out, _ = planned("allreduce", size, 8, 2, "int4")
        self.assertEqual(check["library_bytes_per_call"], out)


if __name__ == "__main__":
    unittest.main()
