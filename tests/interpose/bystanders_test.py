"""Programs that the preload library happens to be in, as it is in all that a job's script starts:

    bystanders_test.py PRELOAD_LIBRARY ENVIRONMENT_PROGRAM

They do what they do without it, and say nothing of it."""

import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PRELOAD, ENVIRONMENT = sys.argv[1:3]
PATIENCE = 120
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import local_ranks  # noqa: E402

# What a job may have set by then.
SETTINGS = ({}, {"TERSE_SCHEME": "int8"}, {"TERSE_SCHEME": "int44", "TERSE_LOG": "trace"},
            {"TERSE_SCHEME": "int8", "TERSE_CUDA_MODULE": "/nonexistent", "TERSE_REPORT": "/nonexistent/"})
STATIC = "/sbin/ldconfig"  # in Debian
PROGRAMS = (["bash", "-c", "for i in 1 2 3; do (echo $i | cat); done; exec true"],
            ["sh", "-c", "exit 3"],
            ["git", "--version"],
            ["gdb", "-batch", "-nx", "-ex", "print 1 + 1"],
            [STATIC, "--version"],
            [sys.executable, "-c", "import ctypes, ssl, subprocess; print(subprocess.call(['true']))"])


def run(words, preload, **settings):
    done = subprocess.run(words, text=True, capture_output=True, timeout=PATIENCE,
                          env=local_ranks.environment(LD_PRELOAD=preload, **settings))
    return done.returncode, done.stdout, done.stderr


class Bystanders(unittest.TestCase):
    def expect_unchanged(self, words):
        alone = run(words, None)
        for settings in SETTINGS:
            self.assertEqual(run(words, PRELOAD, **settings), alone, (words, settings))

    def test_programs_without_nccl_do_not_notice(self):
        found = [words for words in PROGRAMS if shutil.which(words[0])]
        self.assertGreater(len(found), 2)
        for words in found:
            with self.subTest(words):
                self.expect_unchanged(words)

    @unittest.skipUnless(os.geteuid() == 0, "another user's program is made by root")
    def test_a_program_of_another_user_runs_without_it(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(shutil.which("id"), folder + "/id")
            os.chown(program, 65534, 65534)
            os.chmod(program, 0o4755)
            code, out, _ = run([program, "-u"], None)
            if (code, out) != (0, "65534\n"):
                self.skipTest("no program of another user runs as that here")
            self.expect_unchanged([program, "-u"])

    def test_other_allocators_go_before_and_after(self):
        found = [library for library in map(ctypes.util.find_library,
                                            ("jemalloc", "tcmalloc_minimal", "mimalloc")) if library]
        for other in found:
            for order in (f"{other}:{PRELOAD}", f"{PRELOAD}:{other}"):
                with self.subTest(order):
                    self.assertEqual(run([ENVIRONMENT], order, TERSE_SCHEME="int8", TERSE_LOG="error"),
                                     (0, "done\n", ""))


class Environment(unittest.TestCase):
    """What a program does to its own, before it comes to NCCL or meanwhile."""

    def test_it_is_cleared_absent_or_changes(self):
        for way in "cleared", "absent", "changing":
            for scheme in "off", "int8":
                with self.subTest((way, scheme)):
                    self.assertEqual(run([ENVIRONMENT, way], PRELOAD, TERSE_SCHEME=scheme, TERSE_LOG="error"),
                                     (0, "done\n", ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
