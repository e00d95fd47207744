"""torch.distributed on the backend hostnccl: backend_test.py PYTHON TERSE HOSTNCCL"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import playing

PYTHON, TERSE, HOSTNCCL = sys.argv[1:4]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODULE = os.path.join(ROOT, "python")


class Environment(unittest.TestCase):
    """make.py erases what it has made itself, and nothing else. Here it gets no packages."""

    def make(self, folder):
        program = ROOT + "/examples/pytorch/environment/make.py"
        done = subprocess.run([sys.executable, program, folder], check=False, text=True,
                              env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0)
        return done.stdout

    def test_somebody_elses_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "thesis").touch()
            self.assertRegex(self.make(folder), "is not empty, and not made by make.py")
            self.assertEqual(os.listdir(folder), ["thesis"])

    def test_one_of_an_older_recipe(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("made", "old"):
                pathlib.Path(folder, name).write_text("old", encoding="utf-8")
            self.assertIn("No matching distribution", self.make(folder))
            self.assertTrue(os.path.exists(folder + "/bin/pip"))
            self.assertFalse(os.path.exists(folder + "/old"))
            # It is not finished, and known as begun.
            self.assertEqual(pathlib.Path(folder, "made").read_text(encoding="utf-8"), "")


class Building(unittest.TestCase):
    COMPILER = """#!/bin/sh
echo "$@" >> $(dirname $0)/compiled
while [ $# -gt 0 ]; do [ "$1" != -o ] || : > "$2"; shift; done
"""

    def test_what_is_there_already_is_built_anew(self):
        """Without ninja, too: by what stands for a compiler."""
        with tempfile.TemporaryDirectory() as folder:
            compiler = pathlib.Path(folder, "c++")
            compiler.write_text(self.COMPILER, encoding="utf-8")
            compiler.chmod(0o755)
            for name in ("sh", "dirname", "which"):
                os.symlink(shutil.which(name), f"{folder}/{name}")
            environment = {**os.environ, "PATH": folder, "TORCH_DONT_CHECK_COMPILER_ABI": "1",
                           **dict.fromkeys(("CC", "CXX", "LDSHARED", "LDCXXSHARED"), str(compiler))}
            module = pathlib.Path(folder, "lib", "torch_hostnccl", "__init__.py")
            for times in (1, 2):
                subprocess.run([PYTHON, "-W", "ignore", ROOT + "/examples/pytorch/backend/setup.py",
                                "--quiet", "build", "--build-base", folder + "/base", "--build-lib",
                                folder + "/lib"], check=True, env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                commands = pathlib.Path(folder, "compiled").read_text(encoding="utf-8").splitlines()
                self.assertEqual(sum("all.cc" in command for command in commands), times)
                self.assertIn("register_backend", module.read_text(encoding="utf-8"))
                module.write_text("old", encoding="utf-8")


class Backend(unittest.TestCase):
    def play(self, *jobs, prefix=(), variables=()):
        """All ranks must end well; one that kills itself has nothing to say."""
        results = playing.play(PYTHON, jobs, prefix, variables)
        self.assertEqual(len(results), len(jobs))
        for job, ranks in zip(jobs, results):
            self.assertEqual(len(ranks), int(job.split(":")[1]))
            for rank, result in enumerate(ranks):
                with self.subTest(job=job, rank=rank):
                    lost = (job.split(":")[0], rank) in (("failures", 3), ("lost", 1))
                    self.assertEqual(result["status"], -9 if lost else 0, result["output"])
                    if not lost:
                        self.assertIn("good", result["output"].splitlines())

    def test_exact(self):
        self.play("collectives:1", "collectives:3", "collectives:4", "failures:4",
                  "batches:2", "training:2:exact")

    def test_collectives_in_callbacks(self):
        self.play("futures:2:refused", "futures:3:ordered")

    def test_callbacks_run_before_the_program_ends(self):
        program = subprocess.run([PYTHON, "-W", "ignore", ROOT + "/tests/pytorch/ending.py"], text=True,
                                 capture_output=True, timeout=120)
        self.assertEqual((program.returncode, program.stdout), (0, "[1.0, 1.0, 1.0]\n"), program.stderr)

    def test_names_of_communicators(self):
        self.play("names:2", variables={"PYTHONPATH": MODULE},
                  prefix=[TERSE, "run", "--scheme", "name=named* -> off; name=? -> off; int8", "--nccl",
                          HOSTNCCL, "--"])

    def test_a_model_is_kept_exact(self):
        self.play("exact:4", variables={"PYTHONPATH": MODULE},
                  prefix=[TERSE, "run", "--scheme", "bytes=1.. -> int8", "--nccl", HOSTNCCL, "--"])

    def test_what_fails_keeps_its_memory(self):
        self.play(*["lost:3"] * 3, "batches:2",
                  variables={"PYTHONPATH": MODULE, "MALLOC_MMAP_THRESHOLD_": "65536"}, prefix=[
                      TERSE, "run", "--scheme", "int4", "--nccl", HOSTNCCL, "--"])

    def test_what_is_kept(self):
        self.play("training:2:kept", variables={"PYTHONPATH": MODULE},
                  prefix=[TERSE, "run", "--scheme", "safe-fsdp32", "--nccl", HOSTNCCL, "--"])

    def test_norms_of_ddp(self):
        self.play("excluded:2", variables={"TERSE_MIN_BYTES": "0"},
                  prefix=[TERSE, "run", "--scheme", "int4", "--nccl", HOSTNCCL, "--"])

    def test_compressed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.play("training:2:compressed",
                      variables={"TERSE_REPORT": folder, "PYTHONPATH": MODULE},
                      prefix=[TERSE, "run", "--scheme", "int8", "--nccl", HOSTNCCL, "--"])
            report = subprocess.run([TERSE, "report", folder], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout
        for collective in ("AllReduce", "AllGather", "ReduceScatter"):
            self.assertRegex(report, f"(?i){collective}.*int8")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
