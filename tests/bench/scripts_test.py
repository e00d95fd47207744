"""tests/run, tests/soak and cmake/sanitize.cmake: their options, and what is missing."""

import os
import shutil
import subprocess
import tempfile
import unittest

from programs import BUILD, ROOT

SANITIZED = "^field\\.Past31Bits|^interpose\\.soak|"  # what the sanitizers leave out begins with it


def write_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)


class TestsRun(unittest.TestCase):
    """With an install-deps.sh, a cmake and a ctest that only write down what they are to do."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(os.path.join(self.folder, "tests"))
        for name in "run", "emulation":
            shutil.copy(os.path.join(ROOT, "tests", name), os.path.join(self.folder, "tests"))
        for name in ("cmake/install-deps.sh", "bin/cmake", "bin/ctest", "bin/python",
                     "bin/update-binfmts", "bin/sudo"):
            write_script(os.path.join(self.folder, name),
                         f'printf "%s\\n" "$@" > {self.folder}/asked-$(basename $0)')
        cache = os.path.join(self.folder, "build", "host", "CMakeCache.txt")
        os.makedirs(os.path.dirname(cache))
        with open(cache, "w", encoding="utf-8") as file:
            file.write(f"_Python3_EXECUTABLE:INTERNAL={self.folder}/bin/python\n")

    def run_it(self, *arguments):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return subprocess.run([os.path.join(self.folder, "tests", "run"), *arguments], text=True,
                              capture_output=True, check=False,
                              env={**os.environ, "PATH": path, "TERSE_CUDA": "OFF"})

    def asked(self, what, *arguments):
        """What a run with these asks it for."""
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder, f"asked-{what}"), encoding="utf-8") as file:
            return file.read().splitlines()

    def chosen(self, *arguments):
        """The last -R, -E and -L of ctest, which takes no others."""
        asked = self.asked("ctest", *arguments)
        found = dict(zip(asked, asked[1:]))
        for name in "-E", "--exclude-regex":
            self.assertLessEqual(asked.count(name), 1, asked)
        return [found.get(name) for name in ("-R", "-E", "-L")]

    def refused(self, *arguments):
        """The message; nothing is installed first."""
        installed = os.path.join(self.folder, "asked-install-deps.sh")
        if os.path.exists(installed):
            os.remove(installed)
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertFalse(os.path.exists(installed))
        return done.stderr

    def test_clang_comes_with_its_run_time(self):
        for mode in "--sanitize", "--fuzz":
            packages = self.asked("install-deps.sh", mode)
            self.assertLessEqual({"clang", "libclang-rt-dev", "llvm"}, set(packages))
        self.assertNotIn("clang", self.asked("install-deps.sh"))

    def test_pytorch_is_loaded_where_all_tests_run(self):
        for arguments in ["--sanitize"], ["--", "-R", "codec"]:
            self.run_it(*arguments)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "asked-python")))
        self.assertEqual(self.asked("python")[1:], ["build/torch", "--megatron", "--deepspeed"])

    def test_what_cannot_be_built_is_not_tested(self):
        write_script(os.path.join(self.folder, "bin/cmake"), '[ "$1" != --build ] || exit 7')
        self.assertEqual(self.run_it().returncode, 7)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "asked-ctest")))

    def test_there_is_one_mode(self):
        self.assertIn("--sanitize and --thread: one at a time",
                      self.refused("--sanitize", "--thread"))
        self.assertIn("--fuzz and --sanitize: one at a time", self.refused("--fuzz", "--sanitize"))

    def test_each_mode_has_its_tests(self):
        self.assertEqual(self.chosen(), [None, None, None])
        self.assertEqual(self.chosen("--fuzz"), ["^fuzz\\.", None, None])
        self.assertEqual(self.chosen("--thread"),
                         ["^engine\\.|^interpose\\.programs", None, None])
        chosen, left_out, _ = self.chosen("--sanitize")
        self.assertIsNone(chosen)
        self.assertTrue(left_out.startswith(SANITIZED))

    def test_what_is_not_emulated_is_left_out_and_named(self):
        left_out = self.chosen("--aarch64", "--", "-E", "foo")[1]
        for name in "python.module", "pytorch.steps", "package", "foo":
            self.assertRegex(name, left_out)
        for name in "package.version", "codec.Golden.Encode", "interpose.check_of_another":
            self.assertNotRegex(name, left_out)
        said = self.run_it("--aarch64").stderr
        for line in said.splitlines()[1:]:
            expression, reason = line.split(maxsplit=1)
            self.assertIn(expression, left_out)
            self.assertTrue(reason)
        self.assertEqual(left_out.count("^"), said.count("^"))

    def test_packages_of_arm_are_installed_for_arm_alone(self):
        self.assertIn("libucx-dev:arm64", self.asked("install-deps.sh", "--aarch64"))
        self.assertNotIn("libucx-dev:arm64", self.asked("install-deps.sh"))

    def test_what_the_user_leaves_out_is_left_out_besides(self):
        for name in "-E", "--exclude-regex":
            self.assertEqual(self.chosen("--", name, "foo"), [None, "foo", None])
            self.assertEqual(self.chosen("--thread", "--", name, "foo")[1], "foo")
            left_out = self.chosen("--sanitize", "--", name, "foo", "-L", "bench", name, "bar")
            self.assertTrue(left_out[1].startswith(SANITIZED))
            self.assertTrue(left_out[1].endswith("|foo|bar"))
            self.assertEqual(left_out[2], "bench")
            self.assertEqual(self.chosen("--fuzz", "--", name, "foo"), ["^fuzz\\.", "foo", None])
        self.assertIsNone(self.chosen("--thread", "--", "-E", "")[1])
        self.refused("--", "-E")

    def test_what_the_user_chooses(self):
        self.assertEqual(self.chosen("--", "-R", "codec"), ["codec", None, None])
        chosen, left_out, _ = self.chosen("--sanitize", "--", "-R", "codec")
        self.assertEqual(chosen, "codec")
        self.assertTrue(left_out.startswith(SANITIZED))
        self.assertEqual(self.chosen("--thread", "--", "-R", "codec")[0], "codec")
        for name in "-R", "--tests-regex":
            said = self.refused("--fuzz", "--", name, "codec")
            self.assertIn("--fuzz says which tests run", said)


class Soak(unittest.TestCase):
    def soak(self, *arguments):
        return subprocess.run([os.path.join(ROOT, "tests", "soak"), "--build", BUILD, *arguments],
                              capture_output=True, text=True, check=False, timeout=100)

    def test_what_would_play_nothing_is_refused(self):
        for arguments, said in ((["--seeds", "10..5"], "'10..5': the seeds are from 0"),
                                (["--seeds=-2..5"], "'-2..5': the seeds are from 0"),
                                (["--seeds", "few"], "invalid span value"),
                                (["--jobs", "0"], "0 is less than 1"),
                                (["--kills", "-1"], "-1 is less than 0"),
                                (["--levels", "-1"], "-1 is less than 0")):
            done = self.soak(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(f"argument {arguments[0].partition('=')[0]}: {said}", done.stderr)
            self.assertEqual(done.stdout, "")


class Sanitize(unittest.TestCase):
    def configure(self, printed):
        """Of a project whose compiler, a clang, says that its libraries are there."""
        with tempfile.TemporaryDirectory() as folder:
            write_script(os.path.join(folder, "clang++"), f"echo {printed}")
            with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.22)\n"
                           "project(sanitized LANGUAGES NONE)\n"
                           f"set(CMAKE_CXX_COMPILER {folder}/clang++)\n"
                           "set(CMAKE_CXX_COMPILER_ID Clang)\nset(TERSE_SANITIZE address)\n"
                           f"include({ROOT}/cmake/sanitize.cmake)\n")
            return subprocess.run(["cmake", "-S", folder, "-B", os.path.join(folder, "build")],
                                  capture_output=True, text=True, check=False)

    def test_a_compiler_without_its_run_time_is_an_error(self):
        done = self.configure("libclang_rt.asan-x86_64.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("libclang-rt-dev", done.stderr)

    def test_a_compiler_with_it_is_none(self):
        done = self.configure("/usr/lib/clang/libclang_rt.asan-x86_64.so")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
