"""A job of which every other rank is a program of another architecture, which emulates it:

    two_architectures_test.py RANK_PROGRAM PRELOAD_LIBRARY OTHER_RANK_PROGRAM OTHER_PRELOAD_LIBRARY

Skipped where the other programs are not built."""

import os
import sys
import unittest

OTHER_PROGRAM, OTHER_PRELOAD = sys.argv[3:5]
del sys.argv[3:]

from job import PROGRAM, SUCCESS, Job, main  # noqa: E402

SCHEMES = ("off", "int8", "int4:round=stochastic", "int3:scale=bf16", "minmax3:round=shift",
           "int4:hadamard=32", "learned4", "linear8", "exp8", "fp8e4m3", "mxfp8", "mxfp6", "mxfp4", "nvfp4",
           "bf16", "int8:algo=oneshot", "auto:bits=4")


class TwoArchitectures(unittest.TestCase):
    def test_all_ranks_have_the_bytes_of_one_architecture(self):
        for scheme in SCHEMES:
            with self.subTest(scheme=scheme):
                own = {"TERSE_SCHEME": scheme, "TERSE_MIN_BYTES": "1K"}
                if scheme.startswith("auto"):
                    own["TERSE_PROFILE"] = "v100-8x-10gbit"
                other = {**own, "LD_PRELOAD": OTHER_PRELOAD}
                alike = Job([other] * 4, programs=[OTHER_PROGRAM] * 4, count=100_003).outputs()
                mixed = Job([own, other] * 2, programs=[PROGRAM, OTHER_PROGRAM] * 2, count=100_003).outputs()
                self.assertEqual([line[2].split()[0] for line in alike[0][1:]], [SUCCESS] * 2, alike)
                self.assertEqual(mixed, alike)


if __name__ == "__main__":
    if not os.path.exists(OTHER_PROGRAM) or not os.path.exists(OTHER_PRELOAD):
        print(f"there is no {OTHER_PROGRAM}, or no {OTHER_PRELOAD}")
        sys.exit(77)
    main()
