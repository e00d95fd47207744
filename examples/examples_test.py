"""Runs the examples as their own comments and README.md say, and the program of docs/API.md.

examples_test.py BIN_FOLDER HOSTNCCL LIBTERSE COMPILER SANITIZER"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, HOSTNCCL, LIBTERSE, COMPILER, SANITIZER = sys.argv[1:6]
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))

import local_ranks  # noqa: E402
from ports import free_port  # noqa: E402

TERSE = [f"{BIN}/terse", "run", "--scheme", "int8", "--nccl", HOSTNCCL, "--"]
# MPI's own leaks are none of ours to find.
MPI = ["env", "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", "mpirun", "--oversubscribe",
       "-n"]


def run(command, **variables):
    environment = local_ranks.environment(OMPI_ALLOW_RUN_AS_ROOT="1",
                                          OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
    done = subprocess.run(command, check=False, text=True, timeout=100, env=environment,
                          capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Examples(unittest.TestCase):
    def expect_errors(self, output, lines, low, high):
        """Each line's errors, which lie between `low` and `high`."""
        errors = [float(e) for e in re.findall(r"error ([-+.e0-9]+)", output)]
        self.assertEqual(len(output.splitlines()), lines, output)
        self.assertGreaterEqual(len(errors), lines, output)
        for error in errors:
            self.assertTrue(low <= error <= high, output)

    def test_allreduce(self):
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        self.expect_errors(run(MPI + ["3", f"{BIN}/allreduce", "int4"], **address), 3, 0.01, 0.2)

    def test_allreduce_started_by_hand(self):
        port = free_port()
        environments = [local_ranks.environment(**local_ranks.torchrun(rank, 2, port)) for rank in range(2)]
        ranks = local_ranks.run([[f"{BIN}/allreduce", "int4"]] * 2, environments)
        self.expect_errors("".join(out for _, out, _ in ranks), 2, 0.01, 0.2)

    @unittest.skipIf(SANITIZER, "a program without the sanitizer's run-time")
    def test_program_of_the_c_interface(self):
        with open(os.path.join(ROOT, "docs", "API.md"), encoding="utf-8") as file:
            program = re.search(r"```c\n(/\* average\.c \*/.*?)```", file.read(), re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "average.c"), os.path.join(folder, "average")
            with open(source, "w", encoding="utf-8") as file:
                file.write(program)
            libraries = [LIBTERSE, HOSTNCCL]
            run([COMPILER, "-Wall", "-Werror", source, "-o", binary, f"-I{ROOT}/include",
                 f"-I{ROOT}/include/nccl", *libraries,
                 *(f"-Wl,-rpath,{os.path.dirname(name)}" for name in libraries)])
            got, exactly = re.fullmatch(r"(\S+), exactly (\S+)\n", run([binary])).groups()
        self.assertNotEqual(got, exactly)
        self.assertAlmostEqual(float(got), float(exactly), delta=15)

    def test_hybrid_threads(self):
        program = [f"{BIN}/hybrid_threads", "4"]
        self.expect_errors(run(program), 12, 0, 1e-6)
        self.expect_errors(run(TERSE + program), 12, 1e-4, 0.02)

    def test_hybrid_mpi(self):
        program = [f"{BIN}/hybrid_mpi"]
        self.expect_errors(run(MPI + ["4"] + program), 12, 0, 1e-6)
        self.expect_errors(run(MPI + ["4"] + TERSE + program), 12, 1e-4, 0.02)

    def test_pynccl(self):
        program = [sys.executable, f"{HERE}/pynccl.py"]
        losses = {}
        for name, command in (("native", program + [HOSTNCCL]), ("terse", TERSE + program)):
            lines = run(command).splitlines()
            self.assertEqual(lines[-1], "replicas are identical")
            self.assertEqual(len(lines), 5)
            losses[name] = float(lines[0].rpartition(" ")[2])
        self.assertAlmostEqual(losses["native"], losses["terse"], delta=0.02 * losses["native"])
        self.assertNotEqual(losses["native"], losses["terse"])  # it was compressed


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        sys.exit("mpirun is missing")
    unittest.main(argv=sys.argv[:1], verbosity=2)
