"""Nothing of NCCL's is missing among our exports: exports_test.py PRELOAD_LIBRARY SOURCE_FOLDER

Compared with the list (functions.inc), with what NCCL 2.32 has (golden/nccl-2.32-functions.txt), with the
headers of NCCL that are there, and with this machine's real libnccl.so.2."""

import glob
import os
import re
import subprocess
import sys
import unittest

PRELOAD, SOURCE = sys.argv[1:3]
sys.path.insert(0, SOURCE + "/tests/tools")

from local_ranks import environment  # noqa: E402


def exports(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def listed():
    with open(SOURCE + "/plugin/interpose/functions.inc", encoding="utf-8") as f:
        rows = re.findall(r"^NCCL_FUNCTION\((\w+), (\w+), (\w+)\)$", f.read(), re.M)
    names = {name for name, _, _ in rows}
    return names | {"p" + name for name, whose, _ in rows if whose != "inner"}


def declared(header):
    """Names that are declared as functions in a header of NCCL, macros and comments aside."""
    with open(header, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    text = re.sub(r"//.*|^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    # Inline functions are the header's own; those of C++ are not found by name.
    statements = (s for s in re.split(r"[;{}]", text) if "INLINE" not in s and "inline" not in s)
    plain = os.path.basename(header) == "nccl.h"
    return {match.group(1) for s in statements if plain or "NCCL_EXTERN_C" in s
            for match in re.finditer(r"\b(p?nccl[A-Z]\w*)\s*\(", s)}


def real_libraries():
    table = subprocess.run("ldconfig -p || /sbin/ldconfig -p", shell=True, text=True,
                           capture_output=True).stdout
    found = re.findall(r"^\s*libnccl\.so\.2 .*=> (\S+)$", table, re.M)
    return [p for p in found if "hostncclStreamCreate" not in exports(p)]


# What a client of Python's sees of a library, with its errors.
CLIENT = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
nccl.ncclGetLastError.restype = ctypes.c_char_p
version = ctypes.c_int()
print(nccl.ncclGetVersion(ctypes.byref(version)), version.value)
print(nccl.ncclAllReduce(None, None, 5, 7, 0, None, None), nccl.ncclGetLastError(None))
print(nccl.ncclGroupStart(), nccl.ncclGroupEnd(), nccl.ncclGroupEnd())
print(hasattr(nccl, "ncclNoSuchFunction"), hasattr(nccl, "ncclAllReduce"))
"""


class Exports(unittest.TestCase):
    def setUp(self):
        self.ours = {name for name in exports(PRELOAD) if re.match(r"p?nccl[A-Z]", name)}

    def test_the_list_is_what_is_exported(self):
        self.assertEqual(self.ours, listed())

    def test_the_functions_of_the_newest_nccl(self):
        with open(SOURCE + "/tests/golden/nccl-2.32-functions.txt", encoding="utf-8") as f:
            functions = {line.strip() for line in f if not line.startswith("#")}
        self.assertGreater(len(functions), 180)
        self.assertEqual(functions - self.ours, set())

    def test_headers(self):
        headers = glob.glob(SOURCE + "/include/nccl/nccl.h")
        for folder in ("/usr/include", "/usr/local/include", "/usr/local/cuda*/include"):
            headers += glob.glob(folder + "/nccl.h") + glob.glob(folder + "/nccl_device/*.h")
        for header in headers:
            functions = declared(header)
            if header.endswith("/nccl.h"):
                self.assertGreater(len(functions), 35, header)
                self.assertIn("ncclAllReduce", functions)
            self.assertEqual(functions - self.ours, set(), header)
        print(len(headers), "headers", end=" ", flush=True)

    def test_the_real_library(self):
        libraries = real_libraries()
        if not libraries:
            self.skipTest("no libnccl.so.2 of NVIDIA's on this machine")
        for library in libraries:
            functions = {n for n in exports(library) if re.match(r"p?nccl[A-Z]", n)}
            self.assertGreater(len(functions), 80, library)
            self.assertEqual(functions - self.ours, set(), library)

    def test_the_real_library_answers_through_us_as_by_itself(self):
        if not real_libraries():
            self.skipTest("no libnccl.so.2 of NVIDIA's on this machine")
        for library in real_libraries():
            told = [subprocess.run([sys.executable, "-c", CLIENT, library], check=True, text=True,
                                   capture_output=True,
                                   env=environment(ASAN_OPTIONS="detect_leaks=0", **more)).stdout
                    for more in ({}, {"LD_PRELOAD": PRELOAD, "TERSE_SCHEME": "int8"})]
            self.assertRegex(told[0], r"^0 2\d+\n4 b'.*comm.*'\n")
            self.assertEqual(told[0], told[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
