#!/usr/bin/env python3
"""What docs/EXTENDING.md says is enough: a copy of the tree with its blocks builds, its codec and its
algorithm pass what every one must, and its collective is compressed under the preload library.

    extending_test.py SOURCE WORK
"""

import os
import subprocess
import sys
import unittest

import extend

WORK, SOURCE = os.path.abspath(sys.argv.pop()), os.path.abspath(sys.argv.pop())
COPY, BUILD = os.path.join(WORK, "source"), os.path.join(WORK, "build")
# Quick to compile comes first.
OPTIONS = ["-G", "Ninja", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
           "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG", "-DTERSE_CUDA=OFF",
           "-DTERSE_BUILD_BENCH=OFF"]
CODEC, PLAN = "codec_conformance_test", "plan_conformance_test"
LIBRARIES = "terse", "terse_nccl", "hostnccl"
NCCL = os.path.join(BUILD, "lib/terse/hostnccl/libnccl.so.2")
SHIFT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shift.py")


def run(*command, **environment):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise AssertionError(" ".join(command) + "\n" + done.stdout[-10000:])
    return done.stdout


def run_tests(program, own, filters, **environment):
    """Those of the new entry, of which there must be some, and others."""
    path = os.path.join(BUILD, "bin", program)
    listed = run(path, "--gtest_list_tests", f"--gtest_filter={own}")
    if "  " not in listed:
        raise AssertionError(f"{program} has no tests {own}")
    run(path, f"--gtest_filter={own}:{filters}", **environment)


class Extending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = extend.read(SOURCE)
        document = cls.tree["docs/EXTENDING.md"].decode()
        extend.write(extend.extended(cls.tree, document), COPY)
        run("cmake", "-S", COPY, "-B", BUILD, *OPTIONS)
        run("cmake", "--build", BUILD, "--target", CODEC, PLAN, *LIBRARIES)

    def test_the_codec_keeps_the_contract(self):
        path = os.path.join(BUILD, "bin", CODEC)
        run(path, "--gtest_filter=Golden.FilesAreTheOracles", TERSE_BLESS="1")
        golden = {name: content for name, content in extend.read(COPY).items()
                  if name.startswith("tests/golden/codec/")}
        old = {name: content for name, content in self.tree.items()
               if name.startswith("tests/golden/codec/")}
        self.assertEqual({name: golden.get(name) for name in old}, old)
        self.assertEqual(sorted(golden.keys() - old.keys()),
                         ["tests/golden/codec/decode/pow2.txt",
                          "tests/golden/codec/encode/pow2.txt"])
        run_tests(CODEC, "*/pow2", "Golden.*:Contract.*:Combine.*")

    def test_the_algorithm_does_its_collective(self):
        run_tests(PLAN, "*/AllGather_ring", "Algorithms.*")

    def test_the_collective_is_compressed(self):
        run_tests(PLAN, "*/Shift_direct", "Algorithms.*")
        preloaded = {"LD_PRELOAD": os.path.join(BUILD, "lib/libterse_nccl.so"), "NCCL_SOCKET_IFNAME": "lo",
                     "TERSE_SCHEME": "tag=7 -> off; shift bytes=0.. -> int8"}
        for environment, tag, result in (({}, 0, "exact"), (preloaded, 0, "rounded"), (preloaded, 7, "exact")):
            told = run(sys.executable, SHIFT, NCCL, str(tag), **environment)
            self.assertEqual(told.splitlines()[-1], result, told)


class Documents(unittest.TestCase):
    TREE = {"a": b"one\ntwo\nthree\ntwo\nfour\n"}

    def extended(self, block):
        return extend.extended(self.TREE, f"Text.\n\n```{block}```\n")

    def test_blocks_make_and_change_files(self):
        self.assertEqual(self.extended("cpp b/c\nx\n"), {**self.TREE, "b/c": b"x\n"})
        self.assertEqual(self.extended("diff a\n two\n-three\n+3\n@@\n+3.5\n two\n four\n"),
                         {"a": b"one\ntwo\n3\n3.5\ntwo\nfour\n"})

    def test_what_does_not_fit_is_an_error(self):
        for block in ("diff a\n five\n+six\n", "diff a\n two\n+six\n", "diff a\ntwo\n+six\n",
                      "diff b\n+six\n", "cpp a\nsix\n"):
            with self.subTest(block=block), self.assertRaises(ValueError):
                self.extended(block)


if __name__ == "__main__":
    unittest.main()
