"""The step that runs nccl-tests, with stand-ins for nccl-tests, MPICH and NCCL."""

import os
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "tools", "gpu"))

import machine  # noqa: E402
from context import Context, Failed, NotRun  # noqa: E402
from steps import nccl_tests  # noqa: E402

MPIEXEC = """#!/bin/bash
shift 2
[ -z "${LD_PRELOAD:-}" ] || exit 9
for PMI_RANK in 0 1; do PMI_RANK=$PMI_RANK "$@" || exit $?; done
"""
MAKEFILE = """
os.build:
\ttest -e $(NCCL_HOME)/include/nccl.h
\ttest -e $(NCCL_HOME)/lib/libnccl.so
\ttest -x $(MPI_HOME)/bin/mpiexec
\ttest "$(NVCC_GENCODE)" = "-gencode=arch=compute_90,code=sm_90"
%_perf: os.build
\tmkdir -p $(BUILDDIR)
\tcp ../perf $@
"""
# As nccl-tests print it.
TABLE = """#       size         count      type   redop    root     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    {time}   18.89   18.89  {wrong}    55.42   18.92   18.92  {wrong}
"""
PERF = """#!/bin/bash
[ "$NCCL_HOSTID $NCCL_DEBUG" = "rank$PMI_RANK LEVEL" ] || exit 8
case "$*" in *"-c 0"*) wrong=N/A ;; *) wrong=WRONG ;; esac
time=55.51
[ -z "$TERSE_REPORT" ] || time=22.22
[ -z "$TERSE_VERIFY" ] || time=99.99
[ $PMI_RANK = 0 ] && sed "s|{wrong}|$wrong|g; s|{time}|$time|" <<'END'
TABLEEND
if [ -n "$TERSE_REPORT" ] && [ "$LD_PRELOAD" = LIBRARY ]; then
  echo '{"communicators": [{"rows": [{"calls": CALLS, "error": {"calls": 1, "worst_relative": ERROR}}]}]}' \\
    > "$TERSE_REPORT/$PMI_RANK.json"
fi
exit 0
"""


class NcclTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.carried = os.path.join(self.folder, "carried")
        self.preload = self.write("lib/libterse_nccl.so", "")
        nccl = self.write("nccl-2/lib/libnccl.so.2", "")
        self.write("nccl-2/include/nccl.h", "")
        self.context = Context(self.folder, 60, nccl, gpu=True)
        for patch in (mock.patch.object(nccl_tests, "carried", lambda: self.carried),
                      mock.patch.object(machine, "gpus", lambda: ["one"]),
                      mock.patch.object(machine, "architectures", lambda: ["90"]),
                      mock.patch.object(machine, "tool", lambda name: f"/cuda/bin/{name}")):
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def carry(self, wrong="0", calls="3", error="0.01", debug="WARN"):
        self.write("carried/nccl-tests/Makefile", "")
        self.write("carried/nccl-tests/src/Makefile", MAKEFILE)
        self.write("carried/nccl-tests/perf",
                   PERF.replace("TABLE", TABLE).replace("WRONG", wrong)
                   .replace("LIBRARY", self.preload).replace("CALLS", calls)
                   .replace("ERROR", error).replace("LEVEL", debug), 0o755)
        with zipfile.ZipFile(os.path.join(self.carried, "mpich-1-py3.whl"), "w") as wheel:
            wheel.writestr("mpich-1.data/data/bin/mpiexec", MPIEXEC)

    def test_needs_nccl_tests(self):
        with self.assertRaisesRegex(NotRun, "tests/gpu/carry --nccl-tests CHECKOUT"):
            nccl_tests.run(self.context)

    def test_runs_each_native_off_and_compressed(self):
        """The time of what is compressed is not that of the run that verifies it."""
        self.carry()
        figures = nccl_tests.run(self.context)
        row = [{"bytes": 1048576, "us": 55.51}]
        each = {"native": row, "off": row, "int8": [{"bytes": 1048576, "us": 22.22}],
                "int8 error": 0.01}
        self.assertEqual(figures, {name: each for name in nccl_tests.PROGRAMS})

    def test_leaves_settings_of_nccl_as_they_are(self):
        self.carry(debug="INFO")
        with self.assertRaisesRegex(Failed, "ended with 8"):
            nccl_tests.run(self.context)
        with mock.patch.dict(os.environ, NCCL_DEBUG="INFO"):
            nccl_tests.run(self.context)

    def test_reads_what_is_not_checked_and_has_no_operation(self):
        line = "1024 64 float -1 149.15 0.01 0.01 N/A 105.45 0.01 0.01 N/A\n# Avg bus bandwidth : 0.3"
        self.assertEqual(nccl_tests.rows(line), [(1024, 149.15, None)])

    def test_wrong_values_are_a_failure(self):
        self.carry(wrong="7")
        with self.assertRaisesRegex(Failed, r"all_reduce_perf: wrong values: \[\(1048576, 55.51, "):
            nccl_tests.run(self.context)

    def test_so_are_errors_that_are_too_large_or_none(self):
        for error in ("0.5", "0"):
            self.carry(error=error)
            with self.assertRaisesRegex(Failed, rf"all_reduce_perf: int8 errs by \[{error}"):
                nccl_tests.run(self.context)

    def test_so_is_nothing_compressed(self):
        self.carry(calls="0")
        with self.assertRaisesRegex(Failed, r"of 2 ranks .*compressed calls: \[0, 0\]") as it:
            nccl_tests.run(self.context)
        row = [{"bytes": 1048576, "us": 55.51}]  # what was measured before stays
        self.assertEqual(it.exception.figures["all_reduce_perf"], {"native": row, "off": row})


if __name__ == "__main__":
    unittest.main()
