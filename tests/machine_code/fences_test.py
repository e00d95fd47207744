"""The fences of fused kernels: fences_test.py LISTINGS, with a folder for each architecture."""

import glob
import os
import sys
import unittest

import fences

LISTINGS = sys.argv.pop(1)
# A kernel that stores data, raises a flag, waits for one, and loads data.
RIGHT = ["STG.E.128", "BAR.SYNC", "MEMBAR.ALL.SYS", "ERRBAR", "ST.E.STRONG.SYS", "LD.E.STRONG.SYS", "CCTL.IVALL",
         "LDG.E.128"]


class Fences(unittest.TestCase):
    def test_a_line_has_an_operation(self):
        lines = ["        /*0970*/              @!P1 LD.E.STRONG.SYS R2, desc[UR6][R2.64] ;\n", ".L_x_1:\n",
                 "        /*13ef0*/                   MEMBAR.ALL.SYS ;\n",
                 "        /*13f00*/               @P1 MEMBAR.ALL.SYS ;\n"]
        self.assertEqual(fences.operations(lines),
                         ["LD.E.STRONG.SYS", "LABEL", "MEMBAR.ALL.SYS", "?MEMBAR.ALL.SYS"])

    # One predicate decides on both, or the fence may be left out alone.
    def test_a_fence_may_be_decided_on_with_its_flag(self):
        fence, store, other, change, set_two = ("        /*0010*/ " + text for text in (
            "@!P1 MEMBAR.ALL.SYS ;", "@!P1 ST.E.STRONG.SYS desc[UR4][R2.64], R0 ;",
            "@P1 ST.E.STRONG.SYS desc[UR4][R2.64], R0 ;", "ISETP.NE.AND P1, PT, R1, RZ, PT ;",
            "PLOP3.LUT P0, P1, PT, PT, PT, PT, 0x8, 0x80 ;"))
        for lines, wanted in (([fence, store], "MEMBAR.ALL.SYS"), ([fence, other], "?MEMBAR.ALL.SYS"),
                              ([fence, change, store], "?MEMBAR.ALL.SYS"),
                              ([fence, set_two, store], "?MEMBAR.ALL.SYS"),
                              ([fence, store.replace("@!P1 ", "")], "?MEMBAR.ALL.SYS")):
            self.assertEqual(fences.operations(lines)[0], wanted, lines)

    def test_right_ones_are_right(self):
        self.assertEqual(fences.wrong(RIGHT), [])

    def expect_wrong(self, code, what):
        self.assertIn(what, " ".join(fences.wrong(code)))

    def without(self, operation):
        return [each for each in RIGHT if each != operation]

    def test_a_flag_is_raised_behind_a_fence(self):
        self.expect_wrong(self.without("MEMBAR.ALL.SYS"), "ST.E.STRONG.SYS comes behind STG.E.128")
        self.expect_wrong(self.without("ST.E.STRONG.SYS"), "no flag is raised")
        self.expect_wrong(RIGHT[:4] + ["STG.E"] + RIGHT[4:], "comes behind STG.E")
        self.expect_wrong(RIGHT[:4] + ["LABEL"] + RIGHT[4:], "comes behind LABEL")
        self.expect_wrong(["?MEMBAR.ALL.SYS" if each == "MEMBAR.ALL.SYS" else each for each in RIGHT],
                          "comes behind ?MEMBAR.ALL.SYS")
        self.expect_wrong(["MEMBAR.ALL.GPU" if each == "MEMBAR.ALL.SYS" else each for each in RIGHT],
                          "comes behind MEMBAR.ALL.GPU")

    def test_data_is_read_anew_behind_a_flag(self):
        self.expect_wrong(self.without("CCTL.IVALL"), "not read anew")
        look = ["LD.E.STRONG.SYS"]
        self.assertEqual(fences.wrong(look + RIGHT + look), [])
        self.expect_wrong(look * fences.LOOKS + RIGHT + look, "not read anew")
        self.expect_wrong(look + look + ["?CCTL.IVALL" if each == "CCTL.IVALL" else each for each in RIGHT],
                          "not read anew")

    def test_flags_are_for_all_of_the_system(self):
        self.expect_wrong(RIGHT + ["LDG.E.STRONG.GPU"], "not for all of the system")
        self.expect_wrong(RIGHT + ["RED.E.ADD.STRONG.SYS"], "atomic")

    def test_no_load_is_of_constant_memory(self):
        self.expect_wrong(RIGHT + ["LDG.E.CONSTANT"], "behind the fences' back")

    def test_of_all_kernels(self):
        indices = glob.glob(LISTINGS + "/sm_*/index")
        if not indices:
            self.skipTest("there is no disassembler")
        for path in indices:
            with open(path, encoding="utf-8") as index:
                names = dict(line.split() for line in index)
            self.assertGreater(len(names), 10)
            for number, name in names.items():
                with open(f"{os.path.dirname(path)}/{number}.sass", encoding="utf-8") as file:
                    self.assertEqual(fences.wrong(fences.operations(file)), [], name)


if __name__ == "__main__":
    unittest.main()
