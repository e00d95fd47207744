"""What is built with TERSE_GLIBC runs, and asks for no newer glibc and no libstdc++ (cmake/glibc.cmake):
glibc_test.py"""

import os
import subprocess
import tempfile
import unittest

import elf

HERE = os.path.dirname(os.path.abspath(__file__))


class OlderGlibc(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def build(self, *options):
        """The folder, and what was said where it does not build."""
        folder = self.scratch.name + "/build"
        subprocess.run(["cmake", "-G", "Ninja", "-S", HERE + "/glibc", "-B", folder, *options],
                       check=True, stdout=subprocess.DEVNULL)
        built = subprocess.run(["cmake", "--build", folder], text=True, stdout=subprocess.PIPE)
        return folder, built.stdout if built.returncode else ""

    def test_a_program_and_a_library(self):
        folder, errors = self.build("-DTERSE_GLIBC=2.28", "-DNEW_FUNCTION=0")
        self.assertEqual(errors, "")
        for name in ("program", "libthrower.so"):
            file = f"{folder}/{name}"
            self.assertLessEqual(elf.newest(elf.versions(file, "GLIBC")), (2, 28), name)
            self.assertEqual(elf.versions(file, "GLIBCXX"), set(), name)
            self.assertNotIn("libstdc++.so.6", elf.needed(file))
        # Where threads and dlsym were before they were in libc.
        self.assertLessEqual({"libpthread.so.0", "libdl.so.2"}, elf.named(folder + "/libthrower.so"))
        run = subprocess.run([folder + "/program", self.scratch.name + "/file"], check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "TERSE_TEST_WORD": "word"})
        self.assertEqual(run.stdout.splitlines(), [
            "constructed", "main 2 word", "exception caught", "waited 1 1", "file 1 12 1",
            "environment 1, options from 1, name 1 1", "random 1", "destroyed"])
        self.assertEqual(run.stderr, "to stderr\n")

    def test_a_function_of_a_newer_one_is_not_linked(self):
        _, errors = self.build("-DTERSE_GLIBC=2.28", "-DNEW_FUNCTION=1")
        self.assertIn("undefined reference to `epoll_pwait2'", errors)

    def test_the_machines_own(self):
        folder, errors = self.build("-DNEW_FUNCTION=1")
        self.assertEqual(errors, "")
        self.assertIn("libstdc++.so.6", elf.needed(folder + "/libthrower.so"))


unittest.main()
