"""What tests/gpu/run is made of, without a GPU."""

import contextlib
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(os.path.dirname(FOLDER), "tools")
sys.path[:0] = [os.path.join(TOOLS, "gpu"), TOOLS]

import machine  # noqa: E402
import preload  # noqa: E402
import processes  # noqa: E402
import ranks  # noqa: E402
from context import Context, Failed, NotRun  # noqa: E402
from report import Report  # noqa: E402
from steps import (STEPS, build, capture, chosen, codec, collectives, parity,  # noqa: E402
                   perf, pytorch, sanitizer)


def seconds(number):
    """An argument of sleep's by which only this test's is known."""
    return f"{number}.{os.getpid()}"


def running(word):
    """Whether a process has this argument."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if word in arguments:
            return True
    return False


def left(*words):
    """Those of which one is still there when they have had time to die."""
    patience = time.monotonic() + 5
    while any(map(running, words)) and time.monotonic() < patience:
        time.sleep(0.02)
    return [word for word in words if running(word)]


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("OUT", None)
        self.context = Context(self.folder, 60, None, gpu=True)

    def script(self, name, text):
        """A program in the folder."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(path, 0o755)
        return path

    def log(self):
        with open(os.path.join(self.folder, "gpu.log"), encoding="utf-8") as file:
            return file.read()


class Programs(InAFolder):
    def test_what_one_prints(self):
        out = self.context.run("bash", "-c", "echo $A; echo b >&2", env={"A": "a"})
        self.assertEqual(out, "a\n")
        self.assertIn("$ A=a bash -c echo", self.log())
        self.assertIn("b\n", self.log())

    def test_bytes_that_are_no_text(self):
        self.assertEqual(self.context.run("printf", r"a\377b"), "a�b")

    def test_one_that_takes_too_long_leaves_nothing(self):
        start = time.monotonic()
        with self.assertRaisesRegex(Failed, "bash ended after 1 s: begun") as it:
            self.context.run("bash", "-c",
                             f"echo begun; sleep {seconds(33)} & sleep {seconds(34)}", seconds=1)
        self.assertTrue(it.exception.late)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(left(seconds(33), seconds(34)), [])
        self.assertIn("begun", self.log())

    def test_in_a_run_that_is_ended_goes_with_it(self):
        for pause in 0, 0.5:  # between its start and when the run knows of it
            script = f"""if True:
                import signal, subprocess, sys, time
                sys.path.insert(0, {TOOLS!r})
                import processes
                class Slow(subprocess.Popen):
                    def __init__(self, *arguments, **more):
                        super().__init__(*arguments, **more)
                        time.sleep({pause})
                subprocess.Popen = Slow
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
                processes.run([(["sleep", {seconds(37)!r}], None)], 60)"""
            run = subprocess.Popen([sys.executable, "-c", script])
            while not running(seconds(37)):
                time.sleep(0.02)
            run.terminate()
            self.assertEqual(run.wait(timeout=10), 1)
            self.assertEqual(left(seconds(37)), [])

    def test_children_that_are_left_do_not_hold_it_up(self):
        self.assertEqual(self.context.run("bash", "-c", "sleep 2 & echo done"), "done\n")

    def test_the_last_whole_object_counts(self):
        self.assertEqual(Context.last_json('{"a": 1}\ntext\n{"a": 2}\n{"a": '), {"a": 2})
        self.assertIsNone(Context.last_json("text"))


class Ranks(InAFolder):
    def test_get_what_launchers_set(self):
        out = self.context.run_ranks(2, "bash", "-c", "echo $RANK of $WORLD_SIZE: $NCCL_DEBUG")
        self.assertEqual(out, "0 of 2: WARN\n")
        self.assertIn("1 of 2: WARN\n", self.log())

    def test_of_which_one_fails(self):
        """The others are ended, and it is the one that is named."""
        script = 'echo "{\\"rank\\": $RANK}"; [ $RANK = 0 ] || { echo bad; exit 5; }; sleep ' + seconds(35)
        with mock.patch.object(processes, "GRACE", 0.2):
            with self.assertRaisesRegex(Failed, r'ended with 5: rank 1: {"rank": 1} \| bad$') as it:
                self.context.run_ranks(2, "bash", "-c", script)
        self.assertEqual(it.exception.figures, {"rank": 0})
        self.assertEqual(left(seconds(35)), [])
        self.assertIn("[rank 0 ended with -9]", self.log())

    def test_that_all_take_too_long(self):
        script = f"echo rank $RANK; sleep {seconds(36)}"
        with self.assertRaisesRegex(Failed, "after 1 s: rank 0: rank 0; rank 1: rank 1"):
            self.context.run_ranks(2, "bash", "-c", script, seconds=1)
        self.assertEqual(left(seconds(36)), [])

    def test_variables_that_are_set_stay(self):
        os.environ["NCCL_MAX_CTAS"] = "7"
        with mock.patch.object(machine, "gpus", lambda: ["one"]):
            [first, _] = ranks.environments(2)
        self.assertEqual((first["NCCL_MAX_CTAS"], first["NCCL_NET"]), ("7", "Socket"))


class Results(InAFolder):
    def exit_code(self, *results):
        report = Report(self.context.results_file())
        for result in results:
            report.add_step(str(len(report.content["steps"])), result, 0, {}, "")
        return report.exit_code()

    def test_a_run_that_does_nothing_is_no_success(self):
        self.assertEqual(self.exit_code(), 77)
        self.assertEqual(self.exit_code("not run", "not run"), 77)
        self.assertEqual(self.exit_code("not run", "passed"), 0)
        self.assertEqual(self.exit_code("not run", "passed", "failed"), 1)

    def test_what_is_not_built_is_a_failure(self):
        for find in self.context.program, self.context.library:
            with self.assertRaisesRegex(Failed, "^it is not built$"):
                find("it")

    def test_so_is_time_that_is_over(self):
        self.context.deadline = time.monotonic() + 7
        with self.assertRaisesRegex(Failed, "no time was left"):
            self.context.run("true")

    def test_a_program_that_finds_no_gpu_fails_where_there_is_one(self):
        with self.assertRaisesRegex(Failed, "ended with 77: no GPU"):
            self.context.run("bash", "-c", "echo no GPU; exit 77")
        self.context.gpu = False
        with self.assertRaisesRegex(NotRun, "no GPU"):
            self.context.run("bash", "-c", "echo no GPU; exit 77")


class Order(InAFolder):
    def names(self, *arguments):
        return [step.NAME for step in chosen(*arguments)]

    def test_is_theirs_and_not_the_command_lines(self):
        self.assertEqual(self.names(["perf", "parity", "build"], [], True),
                         ["build", "parity", "perf"])
        self.assertEqual(self.names(None, ["pytorch"], True),
                         ["build", "parity", "loopback", "sanitizer", "capture", "collectives", "codec", "perf",
                          "nccl-tests"])
        self.assertEqual(len(self.names(None, [], True)), len(STEPS))

    def test_begins_with_the_build_where_nothing_is_built(self):
        self.assertEqual(self.names(["perf"], [], False), ["build", "perf"])
        self.assertEqual(self.names(["perf"], [], True), ["perf"])
        self.assertEqual(self.names(["perf"], ["build"], False), ["perf"])

    def test_of_a_run_on_a_bare_machine(self):
        arguments = [os.path.join(FOLDER, "run"), "--only", "parity", "--without-gpu",
                     "--build-dir", self.folder, "--seconds", "0"]

        def steps():
            subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL)
            with open(os.path.join(self.folder, "results.json"), encoding="utf-8") as file:
                return list(json.load(file)["steps"])

        os.mkdir(os.path.join(self.folder, "bin"))
        self.assertEqual(steps(), ["build", "parity"])
        self.script("bin/gpu_parity_test", "exit 77")
        self.assertEqual(steps(), ["parity"])


class Building(InAFolder):
    def carry(self, part):
        path = os.path.join(self.folder, part)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w", encoding="utf-8").close()

    def test_says_what_is_not_carried(self):
        with self.assertRaisesRegex(Failed, r"has no include/fmt/core\.h, .*tests/gpu/carry"):
            build.check_carried(self.folder)
        for part in build.CARRIED[1:]:
            self.carry(part)
        with self.assertRaisesRegex(Failed, r"has no include/fmt/core\.h; tests/gpu/carry"):
            build.check_carried(self.folder)
        self.carry(build.CARRIED[0])
        build.check_carried(self.folder)

    def test_is_by_make_where_there_is_no_ninja(self):
        programs = os.path.join(self.folder, "programs")
        os.environ["PATH"] = programs
        for name in ("nvcc", "cmake"):
            self.script(f"programs/{name}", "echo $@")
        with mock.patch.object(build, "check_carried", lambda folder: None):
            build.run(self.context)
            self.assertIn("--preset gpu -G Unix Makefiles -B ", self.log())
            self.assertTrue(self.log().rstrip().endswith("-- -k\n\n[ended with 0]"), self.log())
            self.script("programs/ninja", "")
            build.run(self.context)
            self.assertIn("--preset gpu -B ", self.log())
            self.assertTrue(self.log().rstrip().endswith("-- -k 0\n\n[ended with 0]"), self.log())

    def test_is_for_the_gpus_that_there_are(self):
        os.environ["PATH"] = self.folder + ":" + os.environ["PATH"]
        for says, meant in (("9.0\n9.0", ["90"]), ("12.0\n8.6", ["86", "120"]), ("[N/A]", []),
                            ("", [])):
            self.script("nvidia-smi", f"echo '{says}'")
            self.assertEqual(machine.architectures(), meant)

    def test_says_what_is_wrong(self):
        text = "[1/9] error.cc\nFAILED: y.o\nnvcc error.cc\ny.cc(3): error: no\nptxas fatal  : bad\n"
        self.assertEqual(build.errors(text),
                         ["FAILED: y.o", "y.cc(3): error: no", "ptxas fatal  : bad"])
        text = "-- a\nCMake Error at b.cmake:4 (message):\n  There is\n  no c.\n\n-- Configuring"
        self.assertEqual(build.errors(text), ["CMake Error at b.cmake:4 (message): There is no c."])


class Steps(InAFolder):
    def install(self, name, script):
        """A program that the steps find."""
        return self.script(os.path.join("bin", name), script)

    def test_figures_of_a_parity_that_fails(self):
        tests = [{"name": "A", "result": "COMPLETED", "time": "1s"},
                 {"name": "B", "result": "COMPLETED", "time": "2s",
                  "failures": [{"failure": "byte 3", "type": ""}]}]
        content = json.dumps({"testsuites": [{"name": "Short", "testsuite": tests}]})
        self.install("gpu_parity_test", f"echo '{content}' > ${{1#*json:}}; exit 1")
        with self.assertRaisesRegex(Failed, "^Short.B: byte 3$") as it:
            parity.run(self.context)
        self.assertEqual(it.exception.figures["Short.A"], {"result": "COMPLETED", "time": "1s"})
        self.assertEqual(it.exception.figures["Short.B"]["failures"], ["byte 3"])

        self.install("gpu_parity_test", "echo a crash; exit 139")  # what is there is not its own
        with self.assertRaisesRegex(Failed, "ended with 139: a crash") as it:
            parity.run(self.context)
        self.assertEqual(it.exception.figures, {})

    def codec(self, script):
        self.install("gpu_codec_bench", script)
        os.environ["PATH"] = self.folder + ":" + os.environ["PATH"]
        self.script("nvidia-smi", f"echo x >> {self.folder}/asked; wc -l < {self.folder}/asked")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                return codec.run(self.context)
            finally:
                self.printed = out.getvalue()

    def test_the_codec_is_measured_against_the_faster_copy(self):
        def row(operation, rate, size=64, **more):
            return "echo '" + json.dumps({"operation": operation, "dtype": "fp32", "us": 1.0,
                                          "bytes": size << 20, "GB/s": rate, **more}) + "'\n"

        def rows(goal):
            small = row("copy", 800, 1) + row("encode", 8, 1, scheme="int8", goal=goal,
                                              cache_resident=True)
            return (small + row("copy", 1500) + row("encode", 1600, scheme="int8", goal=goal)
                    + row("decode", 10, scheme="int5") + row("copy", 2000))

        figures = self.codec(rows(0.8))
        self.assertEqual([each.get("share") for each in figures["rows"]],
                         [None, 0.01, None, 0.8, 0.005, None])
        self.assertEqual((figures["clocks before"], figures["clocks after"]), ("1", "2"))
        self.assertIn("8 GB/s  0.01 in the cache\n", self.printed)
        with self.assertRaisesRegex(Failed, "^below the goal: encode int8 fp32 64 MiB 0.80$") as it:
            self.codec(rows(0.81))
        self.assertEqual(len(it.exception.figures["rows"]), 6)

        crash = row("copy", 1000) + row("encode", 900, scheme="int8") + "echo '{\"oper'; exit 139"
        with self.assertRaisesRegex(Failed, "^gpu_codec_bench ended with 139: ") as it:
            self.codec(crash)
        self.assertEqual([each.get("share") for each in it.exception.figures["rows"]], [None, 0.9])
        with self.assertRaisesRegex(Failed, "^nothing was measured$"):
            self.codec("")

    def test_a_parity_that_hangs_tells_how_far_it_was(self):
        self.install("gpu_parity_test", """cat <<'END'
[----------] 3 tests from Short
[ RUN      ] Short.A
[       OK ] Short.A (1234 ms)
[ RUN      ] Short.B
parity_test.cc:3: Failure
byte 3
[  FAILED  ] Short.B (2 ms)
[ RUN      ] Short.C
END
            sleep """ + seconds(38))
        ends = "(?s)^Short.B: parity.*byte 3; gpu_parity_test ended after 1 s"
        with mock.patch.object(Context, "time_for", lambda *_: 1):
            with self.assertRaisesRegex(Failed, ends) as it:
                parity.run(self.context)
        self.assertEqual(it.exception.figures, {
            "Short.A": {"result": "COMPLETED", "time": "1.234s"},
            "Short.B": {"result": "COMPLETED", "time": "0.002s",
                        "failures": ["parity_test.cc:3: Failure\nbyte 3"]},
            "Short.C": {"result": "DID NOT END"}})

    def test_a_training_that_fails_leaves_the_native_one(self):
        losses = {"losses": [1, 0.1], "same_everywhere": True}
        python = self.script("python", f"""[ -z "$LD_PRELOAD" ] || exit 3
            echo '{json.dumps(losses)}'""")
        self.script("lib/libterse_nccl.so", "")
        with mock.patch.object(sys, "executable", python), \
                mock.patch.object(pytorch.importlib.util, "find_spec", lambda name: name), \
                self.assertRaisesRegex(Failed, "ddp: python ended with 3") as it:
            pytorch.run(self.context)
        self.assertEqual(it.exception.figures["ddp"], {"scheme": "int8", "native": losses})

    def test_collectives_that_hang_tell_how_far_they_were(self):
        self.install("gpu_collectives", """echo '{"calls": 26, "now": "a case"}'; echo
            if [ $WORLD_SIZE = 4 ]; then echo '{"ranks": 4}'; else echo wrong >&2; exit 3; fi""")
        with self.assertRaisesRegex(Failed, "^2 ranks: gpu_collectives ended with 3: .*wrong") as it:
            collectives.run(self.context)
        two, four = {"calls": 26, "now": "a case"}, {"ranks": 4}
        self.assertEqual(it.exception.figures, {"2 ranks": two, "2 ranks, fused": two,
                                                "4 ranks": four, "4 ranks, fused": four})

    def test_collectives_share_a_gpu_as_ranks_of_one_host_where_nccl_can(self):
        self.install("gpu_collectives", """
            echo "{\\"id\\": \\"$NCCL_HOSTID\\", \\"enabled\\": \\"$NCCL_MULTI_RANK_GPU_ENABLE\\"}\"""")
        own, one = {"id": "", "enabled": ""}, {"id": "one host", "enabled": "1"}
        for gpus, version, more in ((1, 23003, {"2 ranks of one host": one}), (1, 22907, {}),
                                    (1, None, {}), (4, 23003, {})):
            with mock.patch.object(machine, "gpus", lambda: ["one"] * gpus), \
                    mock.patch.object(machine, "nccl_version", lambda path: version):
                self.assertEqual(collectives.run(self.context),
                                 {"2 ranks": own, "2 ranks, fused": own,
                                  "4 ranks": own, "4 ranks, fused": own, **more})

    def test_the_global_capture_mode_is_only_reported(self):
        text = '{"failures": FAILURES, "global_mode": "MODE"}'
        for failures, mode, code in ((0, "works", 0), (0, "fails: so", 0), (0, "did not end", 1)):
            line = text.replace("FAILURES", str(failures)).replace("MODE", mode)
            self.install("gpu_capture", f"echo '{line}'; exit {code}")
            self.assertEqual(capture.run(self.context)["global_mode"][:len(mode)], mode)
        for failures, mode in ((1, "did not end"), (0, "not tried"), (0, "works")):
            line = text.replace("FAILURES", str(failures)).replace("MODE", mode)
            self.install("gpu_capture", f"echo '{line}'; exit 1")
            with self.assertRaises(Failed):
                capture.run(self.context)

    def test_a_preload_library_that_compresses_nothing_fails(self):
        with self.assertRaisesRegex(Failed, "libterse_nccl.so is not built"):
            with preload.preloaded(self.context, "int8", 2):
                pass
        self.script("lib/libterse_nccl.so", "")

        def run(*calls):
            with preload.preloaded(self.context, "int8", 2) as env:
                for number, rows in enumerate(calls):
                    communicators = [{"rows": []}, {"rows": [{"calls": n} for n in rows]}]
                    with open(f"{env['TERSE_REPORT']}/{number}.json", "w", encoding="utf-8") as it:
                        json.dump({"communicators": communicators}, it)

        run([3], [1, 2])
        for calls in ((), ([3],), ([3], []), ([3], [0])):
            with self.assertRaisesRegex(Failed, "of 2 ranks .*compressed calls: "):
                run(*calls)

    def measured(self, native, int8, ratio=7.5, gpus=("one",), fails=lambda command: None):
        """The step where calls take so many microseconds, and the codec 5 % of a native one."""
        def run_ranks(context, count, *command, seconds, env):
            self.assertLessEqual(seconds, 40)
            if fails(command):
                raise fails(command)
            folder = env.get("TERSE_REPORT")
            for rank in range(count if folder else 0):
                each = {"encode": native * 0.04e-6, "decode": native * 0.06e-6, "communicate": 1,
                        "total": 1, "calls": 2}
                rows = [{"calls": 2, "seconds": each}]
                with open(f"{folder}/{rank}.json", "w", encoding="utf-8") as file:
                    json.dump({"communicators": [{"rows": rows}]}, file)
            place = {"time": int8 if "--scheme" in command or folder else native, "nwrong": None,
                     "relative_l2_error": None,
                     "wire_ratio": ratio if "--scheme" in command else None}
            results = [{"size": 64 << 20, "out_of_place": place, "in_place": place}]
            with open(command[command.index("-J") + 1], "w", encoding="utf-8") as file:
                json.dump({"results": results}, file)

        for name in ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf"):
            self.install(name, "")
        self.script("lib/libterse_nccl.so", "")
        with mock.patch.object(Context, "run_ranks", run_ranks), \
                mock.patch.object(machine, "gpus", lambda: gpus), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                return perf.run(self.context)
            finally:
                self.printed = out.getvalue()

    def test_speed_is_judged_where_each_rank_has_a_gpu(self):
        figures = self.measured(2e3, 1e3)
        self.assertFalse(figures["judged"])
        self.assertEqual(figures["int8 over native at 64 MiB"], {
            "goal": 2.5, "reached": 2.0, "met": False,
            "native": {"us": [2e3] * 3, "median": 2e3, "spread": 0},
            "int8": {"us": [1e3] * 3, "median": 1e3, "spread": 0}})
        self.assertIn("2.0, the goal is 2.5: not met, not judged here\n", self.printed)
        figures = self.measured(3e3, 1e3, gpus=("one", "two"))
        self.assertTrue(figures["judged"])
        self.assertTrue(figures["int8 over native at 64 MiB"]["met"])
        self.assertEqual(figures["all_gather float"]["speed-up at 64 MiB"],
                         {"int8": 3.0, "preload int8": 3.0})
        with self.assertRaisesRegex(Failed, "^int8 over native at 64 MiB is 2.0; the goal is 2.5$"):
            self.measured(2e3, 1e3, gpus=("one", "two"))

    def test_the_codecs_share_is_of_native_time(self):
        share = self.measured(2e3, 1e3)["codec's share of native"]
        self.assertEqual((share["goal"], share["reached"], share["met"]), (0.1, 0.05, True))
        self.assertAlmostEqual(share["seconds a call"]["decode"], 60e-6)

    def test_goals_are_recorded_when_a_run_fails(self):
        def fails(command):
            if "--scheme" in command and "-w" in command and "10" in command:
                return Failed("no memory")
        with self.assertRaisesRegex(Failed, "^int8 AllReduce of 64 MiB: no memory; ") as it:
            self.measured(2e3, 1e3, fails=fails)
        figures = it.exception.figures
        self.assertEqual(figures["int8 over native at 64 MiB"],
                         {"goal": 2.5, "reached": None, "met": False,
                          "native": {"us": [2e3], "median": 2e3, "spread": 0}})
        self.assertEqual(figures["codec's share of native"],
                         {"goal": 0.1, "reached": None, "met": False})
        self.assertIn("int8", figures["all_reduce float"])

    def test_a_mode_that_takes_too_long_is_that_collectives_last(self):
        def fails(command):
            if "bfloat16" in command and "int8" in command:
                return Failed("ended", late=True)
            if "reduce_scatter" in command[0] and "--scheme" in command:
                return Failed("crashed")
        with self.assertRaisesRegex(Failed, "^all_reduce bfloat16 int8: ended; reduce_s") as it:
            self.measured(3e3, 1e3, fails=fails)
        figures = it.exception.figures
        self.assertEqual(set(figures["all_reduce bfloat16"]),
                         {"native", "speed-up at 64 MiB", "not measured"})
        self.assertEqual(figures["all_reduce bfloat16"]["not measured"], ["int4"])
        self.assertEqual(set(figures["reduce_scatter float"]),
                         {"native", "preload int8", "speed-up at 64 MiB"})

    def test_bytes_are_judged_everywhere(self):
        with self.assertRaisesRegex(Failed, "float int8: 1.0 times fewer bytes, not 3") as it:
            self.measured(3e3, 1e3, 1.0)
        self.assertEqual(len(it.exception.figures), 7)

    def test_a_sanitizer_that_does_not_take_the_gpu_is_not_run(self):
        tool = self.install("compute-sanitizer", "echo '========= Device not supported'; exit 9")
        self.install("gpu_parity_test", "")
        with mock.patch.object(machine, "tool", lambda name: tool):
            with self.assertRaisesRegex(NotRun, "Device not supported"):
                sanitizer.run(self.context)
            self.install("compute-sanitizer", "echo '========= ERROR SUMMARY: 1 error'; exit 9")
            with self.assertRaisesRegex(Failed, "memcheck: .* 1 error; racecheck: .* 1 error"):
                sanitizer.run(self.context)
            self.install("compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'")
            self.assertEqual(sanitizer.run(self.context)["racecheck"], "ERROR SUMMARY: 0 errors")


@unittest.skipIf(machine.gpus(), "there is a GPU")
class WithoutAGpu(unittest.TestCase):
    def test_it_is_not_run(self):
        done = subprocess.run([sys.executable, os.path.join(FOLDER, "run")], text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout[:8]), (77, "not run:"))


class WhatIsTested(InAFolder):
    """Is known by its commit, wherever it runs."""

    def git(self, *arguments):
        identity = ("-c", "user.name=A", "-c", "user.email=a@b")
        return subprocess.run(["git", "-C", self.folder, *identity, *arguments], check=True,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()

    def commit(self):
        self.git("init")
        os.makedirs(os.path.join(self.folder, "tests", "gpu"))
        shutil.copy(os.path.join(FOLDER, "carry"), os.path.join(self.folder, "tests", "gpu"))
        self.script(".gitignore", "/build/\n/gpu.log")
        self.git("add", ".")
        self.git("commit", "-m", "one")
        return self.git("rev-parse", "HEAD")

    def test_in_a_checkout(self):
        commit = self.commit()
        self.assertEqual(machine.version(self.folder), {"commit": commit, "changed_files": 0})
        self.script("another", "")
        self.assertEqual(machine.version(self.folder), {"commit": commit, "changed_files": 1})

    @unittest.skipUnless(os.path.exists("/usr/src/googletest"), "there is nothing to carry")
    def test_where_it_was_carried_to(self):
        commit = self.commit()
        self.script("another", "")
        subprocess.run([os.path.join(self.folder, "tests/gpu/carry")], check=True,
                       stdout=subprocess.DEVNULL)
        os.rename(os.path.join(self.folder, ".git"), os.path.join(self.folder, "git"))
        self.assertEqual(machine.version(self.folder),
                         {"commit": commit, "changed_files": 1, "as_of": "tests/gpu/carry"})

    @unittest.skipUnless(os.path.exists("/usr/src/googletest"), "there is nothing to carry")
    def test_what_cannot_be_carried_is_said_before_anything_is_removed(self):
        self.commit()
        kept = self.script("build/carried/kept", "")
        done = subprocess.run([os.path.join(self.folder, "tests/gpu/carry"), "--nccl-tests",
                               self.folder], check=False, text=True, capture_output=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("nccl-tests 2.19.1 or newer has it", done.stderr)
        self.assertTrue(os.path.exists(kept))

    def test_or_nothing_is(self):
        self.assertEqual(machine.version(self.folder), {"commit": None, "changed_files": None})

    def test_is_in_the_results_with_the_command_and_the_machine(self):
        self.script("bin/gpu_parity_test", "exit 77")
        arguments = [os.path.join(FOLDER, "run"), "--only", "parity", "--without-gpu",
                     "--build-dir", self.folder]
        subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL)
        with open(os.path.join(self.folder, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
        self.assertEqual(results["command"], arguments)
        self.assertLessEqual({"cpu", "memory_gib", "system", "commit", "changed_files", "clocks"},
                             results["machine"].keys())


class ADriver(InAFolder):
    def run_with(self, code, listed):
        """The command, with a driver that says `code` and a nvidia-smi that lists that."""
        source = f"int cuInit(unsigned flags) {{ return {code}; }}"
        library = os.path.join(self.folder, "libcuda.so.1")
        subprocess.run(["cc", "-shared", "-o", library, "-xc", "-"], input=source, text=True,
                       check=True)
        self.script("nvidia-smi", f"echo '{listed}'")
        env = {**os.environ, "LD_LIBRARY_PATH": self.folder, "OUT": self.folder,
               "PATH": self.folder + ":" + os.environ["PATH"]}
        done = subprocess.run([sys.executable, os.path.join(FOLDER, "run")], text=True, env=env,
                              capture_output=True, check=False)
        return done.returncode, done.stdout

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_that_does_not_give_its_gpu_is_a_failure(self):
        self.assertEqual(self.run_with(999, "GPU 0: H100"),
                         (1, "failed: cuInit says 999, and there is a GPU\n"))
        self.assertEqual(self.run_with(100, "GPU 0: H100")[0], 77)
        seen = bool(glob.glob("/dev/nvidia[0-9]*"))
        self.assertEqual(self.run_with(999, "")[0], 1 if seen else 77)


if __name__ == "__main__":
    unittest.main()
