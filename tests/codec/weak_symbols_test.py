#!/usr/bin/env python3
"""The codec's objects for each instruction set define no weak symbol: the linker would keep one of several
definitions for all, and the one for AVX-512 would run on machines without it.

    weak_symbols_test.py NM OBJECT...
"""

import subprocess
import sys
import unittest

NM, *OBJECTS = sys.argv[1:]


class WeakSymbols(unittest.TestCase):
    def test_none_is_defined(self):
        for path in OBJECTS:
            with self.subTest(object=path):
                said = subprocess.run([NM, "--demangle", "--defined-only", path], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout
                symbols = [line.split(maxsplit=2)[1:] for line in said.splitlines()]
                self.assertTrue(symbols)
                self.assertEqual([name for kind, name in symbols if kind in "WwVvu"], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
