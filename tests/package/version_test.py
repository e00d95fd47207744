"""A wheel without CUDA says so in its version: version_test.py SOURCE_FOLDER"""

import os
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(sys.argv[1], "packaging"))

import version  # noqa: E402


class Version(unittest.TestCase):
    def test_without_an_nvcc(self):
        self.assertRegex(version.version({"PATH": "/nowhere"}), r"^\d+\.\d+\.\d+\+cpu$")

    def test_with_an_nvcc(self):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = os.path.join(folder, "nvcc")
            with open(nvcc, "w", encoding="utf-8"):
                pass
            os.chmod(nvcc, stat.S_IRWXU)
            for environment in ({"PATH": folder}, {"CUDACXX": nvcc, "PATH": "/nowhere"}):
                self.assertRegex(version.version(environment), r"^\d+\.\d+\.\d+$")

    def test_as_who_builds_it_knows(self):
        self.assertRegex(version.version({"TERSE_WHEEL_CUDA": "OFF", "CUDACXX": "nvcc"}), r"\+cpu$")
        self.assertRegex(version.version({"TERSE_WHEEL_CUDA": "ON", "PATH": "/nowhere"}), r"\d$")


unittest.main(argv=sys.argv[:1])
