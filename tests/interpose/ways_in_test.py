"""Every way into NCCL, compressed: ways_in_test.py BUILD_FOLDER

Two ranks add up the same numbers by a linked C++ program and by Python clients that open NCCL
themselves; what they print depends on every bit of the results."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
LINKED = [BUILD + "/bin/interpose_rank"]
HOSTNCCL = BUILD + "/lib/terse/hostnccl/libnccl.so.2"
PRELOAD = BUILD + "/lib/libterse_nccl.so"
OLD_NCCL = BUILD + "/tests/interpose/fake/old/libnccl.so.2"
WRAPPER = BUILD + "/tests/interpose/fake/libgrouping_nccl.so"  # is linked to hostnccl
TERSE = BUILD + "/bin/terse"
DEFAULT = "nodes=2.. -> safe"  # of terse run
COUNT, ROUNDS, PATIENCE = 50_000, 2, 60
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import local_ranks  # noqa: E402


def opening(library, look_up="dlsym", python=sys.executable):
    return [python, HERE + "/ctypes_client.py", library, look_up]


def environment(**more):
    return local_ranks.environment(VIRTUAL_ENV=None, ASAN_OPTIONS="detect_leaks=0", **more)


def run(command, count=COUNT, **variables):
    """What the ranks print; alike on all of them."""
    return run_and_listen(command, count, **variables)[0]


def run_and_listen(command, count=COUNT, **variables):
    """The same, and what terse warns of on each rank."""
    with tempfile.TemporaryDirectory() as scratch:
        ranks = local_ranks.run([[*command, rank, 2, scratch + "/id", count, ROUNDS]
                                 for rank in range(2)], [environment(**variables)] * 2)
    outputs = [[line.split() for line in rank.out.splitlines()] for rank in ranks]
    warnings = [[line.split(" terse WARN ")[1] for line in rank.err.splitlines()
                 if " terse WARN " in line] for rank in ranks]
    if outputs[0] != outputs[1]:
        raise AssertionError(f"{command}: the ranks differ: {outputs}")
    return outputs[0], warnings


def under_terse(*words):
    return [TERSE, "run", "--scheme", "int8", *words, "--"]


class WaysIn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.cache = {"XDG_CACHE_HOME": cls.scratch.name + "/cache"}
        cls.preloaded = {"LD_PRELOAD": PRELOAD, "TERSE_SCHEME": "int8"}
        cls.native = run(LINKED)
        cls.compressed = run(LINKED, **cls.preloaded)
        assert cls.native != cls.compressed

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_a_linked_program(self):
        self.assertEqual([line[0] for line in self.compressed], ["init", "round", "round"])
        self.assertEqual(run(under_terse() + LINKED, **self.cache), self.compressed)

    # The loader has no say in calls that the linker has bound: they stay native, and nothing breaks.
    def test_nccl_linked_into_the_program_is_not_seen(self):
        for program in ("interpose_rank_static", "interpose_rank_exporting"):
            command = [f"{BUILD}/bin/{program}"]
            self.assertEqual(run(command), self.native, program)
            self.assertEqual(run(command, **self.preloaded), self.native, program)
            self.assertEqual(run(under_terse() + command, **self.cache), self.native, program)

    def test_nccl_linked_into_a_library_of_the_program(self):
        command = [BUILD + "/bin/interpose_rank_framework"]
        self.assertEqual(run(command), self.native)
        self.assertEqual(run(command, **self.preloaded), self.compressed)

    def test_a_library_opened_by_path(self):
        self.assertEqual(run(opening(HOSTNCCL), **self.preloaded), self.compressed)
        self.assertEqual(run(under_terse() + opening(HOSTNCCL), **self.cache), self.compressed)

    def test_a_library_opened_by_name(self):
        folder = {"LD_LIBRARY_PATH": os.path.dirname(HOSTNCCL)}
        self.assertEqual(run(opening("libnccl.so.2"), **self.preloaded, **folder), self.compressed)

    def test_a_library_of_another_name(self):
        for name in ("libnccl-2.28.so", "collectives.so"):
            library = f"{self.scratch.name}/{name}"
            shutil.copyfile(HOSTNCCL, library)
            self.assertEqual(run(opening(library)), self.native)
            self.assertEqual(run(opening(library), **self.preloaded), self.compressed, name)
            self.assertEqual(run(opening(library), **self.preloaded, TERSE_NCCL=library),
                             self.compressed, name)

    def test_messages_below_the_floor_are_native(self):
        small = 1000
        self.assertEqual(run(opening(HOSTNCCL), count=small, **self.preloaded),
                         run(LINKED, count=small))

    def test_who_asks_libc_itself_is_caught_by_the_facade_alone(self):
        self.assertEqual(run(opening(HOSTNCCL, "libc"), **self.preloaded), self.native)
        client = opening("libnccl.so.2", "libc")
        command = under_terse("--nccl", HOSTNCCL) + client
        self.assertEqual(run(command, **self.cache), self.compressed)
        command = under_terse("--nccl", HOSTNCCL, "--no-facade") + client
        folder = {"LD_LIBRARY_PATH": os.path.dirname(HOSTNCCL)}
        self.assertEqual(run(command, **self.cache, **folder), self.native)

    def test_a_plugin_that_is_opened_with_deepbind_is_warned_of_or_caught_by_the_facade(self):
        libraries = subprocess.run(["readelf", "-d", PRELOAD], check=True, text=True,
                                   capture_output=True).stdout
        if "asan" in libraries:
            self.skipTest("sanitizers cannot live with RTLD_DEEPBIND")
        plugin = BUILD + "/lib/librank_plugin.so"
        plain, deep = ([f"{BUILD}/bin/interpose_rank_plugin", plugin, way]
                       for way in ("plain", "deep"))
        silence, off = [[], []], {"TERSE_SCHEME": "off"}
        warning = (f"{plugin} was opened with RTLD_DEEPBIND, and so calls {HOSTNCCL} past terse: "
                   f"uncompressed; `terse run --nccl {HOSTNCCL}` catches it")
        self.assertEqual(run_and_listen(plain, **self.preloaded), (self.compressed, silence))
        self.assertEqual(run_and_listen(deep, **self.preloaded), (self.native, [[warning]] * 2))
        self.assertEqual(run_and_listen(deep, **{**self.preloaded, **off}), (self.native, silence))
        by_name = [deep[0], os.path.basename(plugin), "deep"]
        folder = {"LD_LIBRARY_PATH": os.path.dirname(plugin)}
        self.assertEqual(run_and_listen(by_name, **self.preloaded, **folder),
                         (self.native, [[warning.replace(plugin, by_name[1])]] * 2))
        wrapper = {"TERSE_NCCL": WRAPPER}  # which terse opens so itself
        self.assertEqual(run_and_listen(LINKED, **self.preloaded, **wrapper),
                         (self.compressed, silence))
        caught = under_terse("--nccl", HOSTNCCL) + deep
        self.assertEqual(run_and_listen(caught, **self.cache), (self.compressed, silence))

    def test_a_facade_has_the_functions_that_its_nccl_has(self):
        ask = ("import ctypes; nccl = ctypes.CDLL('libnccl.so.2'); "
               "print([name for name in ('ncclCommGrow', 'pncclCommGrow', 'ncclAllReduce', "
               "'pncclAllReduce', 'pncclNoSuchFunction', 'pnccl', 'p') if hasattr(nccl, name)])")
        for nccl, functions in ((HOSTNCCL, ["ncclCommGrow", "pncclCommGrow", "ncclAllReduce",
                                            "pncclAllReduce"]),
                                (OLD_NCCL, ["ncclAllReduce"])):
            done = subprocess.run([*under_terse("--nccl", nccl), sys.executable, "-c", ask],
                                  check=True, text=True, capture_output=True,
                                  env=environment(**self.cache))
            self.assertEqual(done.stdout, f"{functions}\n")

    def virtual_environment(self):
        """A Python whose packages have NCCL."""
        folder = self.scratch.name + "/venv"
        packages = f"{folder}/lib/python3.{sys.version_info.minor}/site-packages"
        if not os.path.exists(folder):
            os.makedirs(folder + "/bin")
            os.makedirs(packages + "/nvidia/nccl/lib")
            os.symlink(sys.executable, folder + "/bin/python")
            os.symlink(HOSTNCCL, packages + "/nvidia/nccl/lib/libnccl.so.2")
            with open(folder + "/pyvenv.cfg", "w", encoding="utf-8") as f:
                f.write(f"home = {os.path.dirname(sys.executable)}\n")
        return folder + "/bin/python", packages + "/nvidia/nccl/lib/libnccl.so.2"

    def test_the_packages_of_the_programs_own_python(self):
        python, library = self.virtual_environment()
        for look_up in ("dlsym", "libc"):
            client = opening("libnccl.so.2", look_up, python)
            self.assertEqual(run(under_terse() + client, **self.cache), self.compressed, look_up)
        written = self.dry(python).split("\n")[0].split(":")[1]
        needed = subprocess.run(["readelf", "-d", written], check=True, text=True,
                                capture_output=True).stdout
        self.assertRegex(needed, rf"(?s)\[{PRELOAD}\].*\[{library}\]")

    def installation(self, name, *packages):
        """Pythons that only tell what they are preloaded with, and packages of several releases."""
        folder = f"{self.scratch.name}/{name}"
        os.makedirs(folder + "/bin")
        wheels = [f"{folder}/lib/{each}-packages/nvidia/nccl/lib" for each in packages]
        for wheel in wheels:
            os.makedirs(wheel)
            os.symlink(HOSTNCCL, wheel + "/libnccl.so.2")
        for program in ("python3.12", "python-built-here"):
            with open(f"{folder}/bin/{program}", "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\necho "$LD_PRELOAD"\n')
            os.chmod(f"{folder}/bin/{program}", 0o755)
        os.symlink("python3.12", folder + "/bin/python3")
        os.symlink(folder + "/bin/python3", folder + "/bin/python")
        for tool, interpreter in (("tool", f"{folder}/bin/python3"),
                                  ("other-tool", "/usr/bin/env python3.12")):
            with open(f"{folder}/bin/{tool}", "w", encoding="utf-8") as f:
                f.write(f"#!{interpreter}\n")
            os.chmod(f"{folder}/bin/{tool}", 0o755)
        return folder, wheels

    def nccl_in_front(self, folder, program):
        """The NCCL of the facade that is put in front of the program; None: there is none."""
        path = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run([*under_terse(), f"{folder}/bin/{program}"], check=True, text=True,
                              capture_output=True, env=environment(**self.cache, **path))
        libraries = done.stdout.strip().split(":")
        if len(libraries) == 1:
            return None
        needed = subprocess.run(["readelf", "-d", libraries[1]], check=True, text=True,
                                capture_output=True).stdout
        return os.path.dirname(re.search(r"\[(.*nvidia/nccl/lib/libnccl\.so\.2)\]", needed)[1])

    def test_of_several_packages_those_of_the_programs_own_python(self):
        names = ("python", "python3", "python3.12", "tool", "other-tool")
        folder, wheels = self.installation("several", "python3.10/site", "python3.12/site")
        for program in names:
            self.assertEqual(self.nccl_in_front(folder, program), wheels[1], program)
        self.assertIsNone(self.nccl_in_front(folder, "python-built-here"))
        folder, wheels = self.installation("one", "python3.12/site")
        for program in (*names, "python-built-here"):
            self.assertEqual(self.nccl_in_front(folder, program), wheels[0], program)
        folder, wheels = self.installation("debian", "python3/dist", "python3.10/dist")
        self.assertEqual(self.nccl_in_front(folder, "python3"), wheels[0])
        folder, wheels = self.installation("another", "python3.10/site")
        self.assertIsNone(self.nccl_in_front(folder, "python3"))

    def test_the_wheel_is_not_taken_for_a_torch_of_another_nccl(self):
        folder, [wheel] = self.installation("torch", "python3.12/site")
        for requires, nccl in (("nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'", wheel),
                               ("nvidia-nccl-cu12 (==2.18.1) ; platform_system == 'Linux'", wheel),
                               ("filelock", None)):
            metadata = f"{folder}/lib/python3.12/site-packages/torch-2.9.1.dist-info/METADATA"
            os.makedirs(os.path.dirname(metadata), exist_ok=True)
            with open(metadata, "w", encoding="utf-8") as file:
                file.write(f"Metadata-Version: 2.4\nName: torch\nRequires-Dist: {requires}\n")
            for program in ("python3", "tool"):
                self.assertEqual(self.nccl_in_front(folder, program), nccl, requires)

    def test_scripts_elsewhere_have_the_packages_of_their_virtual_environment(self):
        folder, wheels = self.installation("environment", "python3.12/site")
        with open(folder + "/pyvenv.cfg", "w", encoding="utf-8"):
            pass
        others, _ = self.installation("user", "python3.12/site")
        os.symlink(folder + "/bin/tool", others + "/bin/linked")
        with open(others + "/bin/script", "w", encoding="utf-8") as f:
            f.write(f"#!{folder}/bin/python3\n")
        os.chmod(others + "/bin/script", 0o755)
        for program in ("linked", "script"):
            self.assertEqual(self.nccl_in_front(others, program), wheels[0], program)

    def dry(self, *command, **variables):
        return self.dry_by(["--scheme", "int8"], *command, **variables)

    def dry_by(self, rules, *command, **variables):
        """All but PYTHONPATH."""
        said = subprocess.run([TERSE, "run", *rules, "--dry-run", *command], check=True,
                              text=True, capture_output=True,
                              env=environment(**{**self.cache, **variables})).stdout
        return re.sub(r"^export PYTHONPATH=.*\n", "", said, flags=re.MULTILINE)

    def test_a_program_may_import_terse(self):
        ask = "import os, terse; print(terse.active(), os.environ['PYTHONPATH'])"
        for own in ("", "/nowhere", "/nowhere:/elsewhere"):
            said = subprocess.run([TERSE, "run", "--scheme", "int8", "--", sys.executable, "-c", ask],
                                  check=True, text=True, capture_output=True,
                                  env=environment(**self.cache, PYTHONPATH=own)).stdout
            folder = os.path.dirname(PRELOAD) + "/terse/python"
            self.assertEqual(said, f"True {own}{':' if own else ''}{folder}\n")
        # Once is enough.
        said = subprocess.run([TERSE, "run", "--dry-run", "true"], check=True, text=True,
                              capture_output=True,
                              env=environment(**self.cache, PYTHONPATH=f"/nowhere:{folder}")).stdout
        self.assertNotIn("PYTHONPATH", said)

    def test_the_command_lines_rules_or_else_the_environments(self):
        policy = self.scratch.name + "/policy.toml"
        with open(policy, "w", encoding="utf-8") as f:
            f.write('[[rule]]\nscheme = "int6"\n')
        scheme, file = {"TERSE_SCHEME": "int4"}, {"TERSE_POLICY": policy}
        for rules, own, wanted in (
                ([], {}, [f"TERSE_SCHEME='{DEFAULT}'"]),
                ([], {"TERSE_SCHEME": "", "TERSE_POLICY": ""}, [f"TERSE_SCHEME='{DEFAULT}'"]),
                ([], scheme, []),
                ([], {"TERSE_SCHEME": "off"}, []),
                ([], file, []),
                (["--scheme", "int5"], {}, ["TERSE_SCHEME=int5"]),
                (["--scheme", "int5"], scheme, ["TERSE_SCHEME=int5"]),
                (["--scheme", "int5"], file, ["TERSE_SCHEME=int5", "TERSE_POLICY="]),
                (["--policy", policy], {}, [f"TERSE_POLICY={policy}"]),
                (["--policy", policy], scheme, [f"TERSE_POLICY={policy}", "TERSE_SCHEME="])):
            said = self.dry_by(rules, "--", "/bin/true", **own).splitlines()
            self.assertEqual(said[1:-1], ["export " + each for each in wanted], (rules, own))
        # What the program is given.
        for rules, own, wanted in (([], {}, DEFAULT + " "), ([], scheme, "int4 "),
                                   ([], file, f" {policy}"), (["--scheme", "int5"], file, "int5 "),
                                   (["--policy", policy], scheme, f" {policy}")):
            done = subprocess.run([TERSE, "run", *rules, "--", "sh", "-c",
                                   'echo "$TERSE_SCHEME $TERSE_POLICY"'], check=True, text=True,
                                  capture_output=True, env=environment(**self.cache, **own))
            self.assertEqual(done.stdout, wanted + "\n", (rules, own))

    def test_behind_the_program_all_is_the_programs(self):
        with_dashes = self.dry("--", "sh", "-c", "--scheme int4", "--report", "x", "--", "--dry-run")
        self.assertEqual(self.dry("sh", "-c", "--scheme int4", "--report", "x", "--", "--dry-run"),
                         with_dashes)
        self.assertEqual(with_dashes.splitlines()[-1],
                         "sh -c '--scheme int4' --report x -- --dry-run")

    def test_options_that_stand_for_settings(self):
        said = self.dry_by(["--report", "reports", "--verify", "3", "--trace", "9", "--log", "info"],
                           "true")
        self.assertEqual(said.splitlines()[1:], [
            f"export TERSE_SCHEME='{DEFAULT}'", f"export TERSE_REPORT={os.getcwd()}/reports",
            "export TERSE_VERIFY=3", "export TERSE_TRACE=9", "export TERSE_LOG=info", "true"])

    def test_a_dry_run_says_what_would_be_set_and_runs_nothing(self):
        scheme = "export TERSE_SCHEME=int8"
        self.assertEqual(self.dry("--", "/bin/true", "x", LD_PRELOAD="other.so"),
                         f"export LD_PRELOAD={PRELOAD}:other.so\n{scheme}\n/bin/true x\n")
        empty, ran = self.scratch.name + "/empty", self.scratch.name + "/ran"
        lines = self.dry("--nccl", HOSTNCCL, "--", "touch", ran, XDG_CACHE_HOME=empty).splitlines()
        self.assertRegex(lines[0], rf"^export LD_PRELOAD={PRELOAD}:"
                                   rf"{empty}/terse/facade-[0-9a-f]{{16}}/libnccl.so.2$")
        self.assertEqual(lines[1:], [scheme, f"export TERSE_NCCL={HOSTNCCL}", f"touch {ran}"])
        self.assertFalse(os.path.exists(ran))
        # As a shell reads it.
        words = ["printf", "%s|", "it's", "a b", "", "$HOME", "x"]
        said = self.dry_by(["--scheme", "allreduce bytes=1M.. -> int4; off"], "--", *words)
        told = subprocess.run(["sh", "-c", said + 'sh -c \'echo "$TERSE_SCHEME"\''], check=True, text=True,
                              capture_output=True).stdout
        self.assertEqual(told, "|".join(words[2:]) + "|allreduce bytes=1M.. -> int4; off\n")
        # What it has printed runs the program as without --dry-run.
        ask = ["sh", "-c", 'echo "$TERSE_SCHEME $LD_PRELOAD"']
        self.assertEqual(subprocess.run(["sh", "-c", self.dry("--", *ask)], check=True, text=True,
                                        capture_output=True).stdout, f"int8 {PRELOAD}\n")
        # What it has printed is good for the program itself, also one that only a facade catches.
        variables = dict(line.removeprefix("export ").split("=", 1) for line in lines[:-1])
        self.assertEqual(run(opening("libnccl.so.2", "libc"), **variables), self.compressed)

    def test_what_only_a_report_would_have(self):
        for options, said in ((["--trace", "10"], True), (["--verify", "1"], True),
                              (["--verify", "0"], False), ([], False),
                              (["--trace", "10", "--report", self.scratch.name], False)):
            done = subprocess.run([TERSE, "run", *options, "--dry-run", "true"], check=True, text=True,
                                  capture_output=True, env=environment(**self.cache))
            self.assertEqual("are in reports: --report DIR" in done.stderr, said, options)

    @unittest.skipIf(os.geteuid() != 0 or TERSE.startswith("/tmp/"), "takes root, and a build beyond /tmp")
    def test_what_cannot_be_seen_is_not_required(self):
        without_tmp = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /tmp && exec "$@"', "sh"]
        if subprocess.run([*without_tmp, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no namespaces of mounts")
        done = subprocess.run([*without_tmp, TERSE, "run", "--require", "--", "echo", "ran"], check=False,
                              text=True, capture_output=True, env=environment(**self.cache, TMPDIR="/nowhere"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "terse: --require: there is no folder for temporary files .*/tmp: Read-only")

    def test_errors_have_texts_without_an_nccl(self):
        ask = ("import ctypes; nccl = ctypes.CDLL(None); nccl.ncclGetErrorString.restype = "
               "ctypes.c_char_p; print(nccl.ncclGetErrorString(nccl.ncclGroupStart()).decode())")
        done = subprocess.run([sys.executable, "-c", ask], text=True, capture_output=True,
                              check=True, env=environment(LD_PRELOAD=PRELOAD, TERSE_NCCL="/no/such"))
        self.assertRegex(done.stdout, "no NCCL")

    def test_what_cannot_be_done_is_said(self):
        for words, status, message in (
                (["--nccl", "/no/such.so", "--", "/bin/true"], 1, "there is no /no/such.so"),
                (["--nccl", "/dev/zero", "--", "/bin/true"], 1, "/dev/zero is not a library"),
                (["--", "/no/such/program"], 127, "/no/such/program: No such file"),
                (["--", "no-such-program"], 127, "no-such-program: No such file"),
                (["--", "/dev/zero"], 126, "/dev/zero: Permission denied"),
                (["--", "/bin/true"], 1, 'TERSE_SCHEME="int44": column 1: ')):
            own = {"TERSE_SCHEME": "int44"} if "int44" in message else {}
            done = subprocess.run([TERSE, "run", *words], text=True, capture_output=True,
                                  env=environment(**self.cache, **own), check=False,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, status)
            self.assertIn(message, done.stderr)

    def test_what_others_may_write_no_facade_is_loaded_from(self):
        for kind in ("a link", "open to all", "open to a group"):
            with self.subTest(kind), tempfile.TemporaryDirectory(dir=self.scratch.name) as scratch:
                cache, elsewhere = scratch + "/cache", scratch + "/elsewhere"
                os.mkdir(cache)
                os.mkdir(elsewhere)
                if kind == "a link":
                    os.symlink(elsewhere, cache + "/terse")
                else:
                    os.mkdir(cache + "/terse")
                    os.chmod(cache + "/terse", 0o777 if kind == "open to all" else 0o770)
                ran = scratch + "/ran"
                done = subprocess.run([*under_terse("--nccl", HOSTNCCL), "touch", ran], text=True,
                                      capture_output=True, check=False, timeout=PATIENCE,
                                      env=environment(XDG_CACHE_HOME=cache))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"{cache}/terse is not a folder of this user's alone", done.stderr)
                self.assertFalse(os.path.exists(ran))
                self.assertEqual([names for _, _, names in os.walk(scratch, followlinks=True)
                                  if names], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
