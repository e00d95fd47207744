// Integer instructions, by the values that the PTX ISA and CUDA's binary utilities give them.
#include <gtest/gtest.h>

#include "assemble.h"

namespace terse::machine {
namespace {

TEST(Integer, Adds) {
  EXPECT_EQ(same_result({"MOV R2, 0x5", "IADD3 R0, R2, 0x3, RZ"}), 8u);
  EXPECT_EQ(same_result({"MOV R2, 0x5", "IADD3 R0, -R2, 0x3, R2"}), 3u);
  EXPECT_EQ(same_result({"MOV R2, 0x5", "VIADD R0, R2, 0xffffffff"}), 4u);
  EXPECT_EQ(same_result({"UMOV UR4, 0x7", "UIADD3 UR5, UR4, -0x2, URZ", "MOV R0, UR5"}), 5u);
}

// Numbers of 64 bits are sums of words, of which the first one carries.
TEST(Integer, Carries) {
  const std::vector<std::string> low = {"MOV R2, 0xffffffff", "MOV R3, 0x1"};
  const auto then = [&](std::vector<std::string> more) {
    more.insert(more.begin(), low.begin(), low.end());
    return wide_result(more);
  };
  EXPECT_EQ(then({"IADD3 R0, P0, R2, 0x1, RZ", "IADD3.X R1, R3, RZ, RZ, P0, !PT"}), 0x200000000u);
  EXPECT_EQ(then({"IADD3 R0, P0, R2, 0x0, RZ", "IMAD.X R1, RZ, RZ, R3, P0"}), 0x1ffffffffu);
  // Three words carry up to two.
  EXPECT_EQ(then({"IADD3 R0, P0, P1, R2, R2, R2", "IADD3.X R1, RZ, RZ, RZ, P0, P1"}), 0x2fffffffdu);
  // 0 - 0 carries, 0 - 1 borrows.
  EXPECT_EQ(then({"IADD3 R0, P0, RZ, -RZ, RZ", "IADD3.X R1, RZ, ~RZ, RZ, P0, !PT"}), 0u);
  EXPECT_EQ(then({"IADD3 R0, P0, RZ, -R3, RZ", "IADD3.X R1, RZ, ~RZ, RZ, P0, !PT"}), ~0ull);
  EXPECT_EQ(then({"IADD.64 R0, R2, -0x1"}), 0x1fffffffeu);
}

TEST(Integer, Multiplies) {
  const std::vector<std::string> before = {"MOV R2, 0xfffffffe", "MOV R3, 0x3"};
  const auto then = [&](const std::string& line) {
    return wide_result({before[0], before[1], "MOV R1, RZ", line});
  };
  EXPECT_EQ(then("IMAD R0, R2, R3, R3"), 0xfffffffdu);
  EXPECT_EQ(then("IMAD.SHL.U32 R0, R3, 0x10, RZ"), 0x30u);
  EXPECT_EQ(then("IMAD.WIDE.U32 R0, R2, R3, RZ"), 0x2fffffffau);
  EXPECT_EQ(then("IMAD.WIDE R0, R2, R3, RZ"), static_cast<uint64_t>(-6));
  EXPECT_EQ(then("IMAD.HI.U32 R0, R2, R3, RZ"), 2u);
}

TEST(Integer, Shifts) {
  const auto shifted = [](const std::string& line) {
    return same_result({"MOV R2, 0x12345678", "MOV R3, 0x9abcdef0", "MOV R4, 0x21", line});
  };
  EXPECT_EQ(shifted("SHF.L.U32 R0, R2, 0x4, RZ"), 0x23456780u);
  EXPECT_EQ(shifted("SHF.R.U32.HI R0, RZ, 0x4, R3"), 0x09abcdefu);
  EXPECT_EQ(shifted("SHF.R.S32.HI R0, RZ, 0x4, R3"), 0xf9abcdefu);
  EXPECT_EQ(shifted("SHF.R.U64 R0, R2, 0x8, R3"), 0xf0123456u);
  EXPECT_EQ(shifted("SHF.L.U64.HI R0, R2, 0x8, R3"), 0xbcdef012u);
  EXPECT_EQ(shifted("SHF.L.W.U32.HI R0, R2, 0x28, R2"), 0x34567812u);  // rotates, by 40 - 32
  EXPECT_EQ(shifted("SHF.L.U32 R0, R2, R4, RZ"), 0u);                  // by 33
  EXPECT_EQ(shifted("SHF.R.U32.HI R0, RZ, R4, R3"), 0u);
  EXPECT_EQ(shifted("SHF.R.U64 R0, R2, 0x40, R3"), 0u);  // of 64 bits, by 64
  EXPECT_EQ(shifted("SHF.R.S64 R0, R2, 0x40, R3"), ~0u);
  EXPECT_EQ(shifted("SHF.L.U64.HI R0, R2, 0x40, R3"), 0u);
  EXPECT_EQ(shifted("LEA R0, R2, R3, 0x4"), 0xbe024670u);
  EXPECT_EQ(shifted("LEA.HI R0, R2, R3, RZ, 0x8"), 0x9abcdf02u);
  EXPECT_EQ(shifted("LEA.HI.SX32 R0, R3, 0x1, 0x10"), 0xffff9abdu);
}

TEST(Integer, ArrangesBytes) {
  const auto permuted = [](const std::string& selector) {
    return same_result(
        {"MOV R2, 0x33221180", "MOV R3, 0x77665544", "PRMT R0, R2, " + selector + ", R3"});
  };
  EXPECT_EQ(permuted("0x3210"), 0x33221180u);
  EXPECT_EQ(permuted("0x7054"), 0x77805544u);
  EXPECT_EQ(permuted("0x4448"), 0x444444ffu);  // the sign of byte 0
}

TEST(Integer, DoesLogicByTables) {
  const auto logic = [](const std::string& table) {
    return same_result({"MOV R2, 0xf0", "MOV R3, 0xcc", "MOV R4, 0xaa",
                        "LOP3.LUT R0, R2, R3, R4, " + table + ", !PT"});
  };
  EXPECT_EQ(logic("0x80"), 0x80u);  // and
  EXPECT_EQ(logic("0xfe"), 0xfeu);  // or
  EXPECT_EQ(logic("0x96"), 0x96u);  // exclusive or
  EXPECT_EQ(same_result(
                {"MOV R2, 0x6", "LOP3.LUT P0, RZ, R2, 0x2, RZ, 0xc0, !PT", "SEL R0, RZ, 0x1, !P0"}),
            1u);
}

TEST(Integer, FindsExtremes) {
  const auto extreme = [](const std::string& line) {
    return same_result({"MOV R2, 0xffffffff", "MOV R3, 0x3", line});
  };
  EXPECT_EQ(extreme("VIMNMX R0, R2, R3, PT"), ~0u);
  EXPECT_EQ(extreme("VIMNMX R0, R2, R3, !PT"), 3u);
  EXPECT_EQ(extreme("VIMNMX.U32 R0, R2, R3, PT"), 3u);
  EXPECT_EQ(extreme("VIMNMX.U16x2 R0, R3, 0x10001, !PT"), 0x10003u);
  EXPECT_EQ(extreme("VIMNMX.U16x2 R0, R3, 0x10001, PT"), 1u);
  EXPECT_EQ(same_result({"UMOV UR4, 0x3", "UMOV UR5, 0xffffffff", "UVIMNMX.U32 UR4, UR4, UR5, UPT",
                         "MOV R0, UR4"}),
            3u);
  EXPECT_EQ(extreme("VIADDMNMX R0, R3, -R2, 0x2, PT"), 2u);
  EXPECT_EQ(extreme("FLO.U32 R0, R3"), 1u);
  EXPECT_EQ(extreme("FLO.U32 R0, RZ"), ~0u);
}

TEST(Integer, Compares) {
  const auto compared = [](const std::string& line) {
    return same_result({"MOV R2, 0xffffffff", "MOV R3, 0x3", line, "SEL R0, RZ, 0x1, !P0"});
  };
  EXPECT_EQ(compared("ISETP.LT.AND P0, PT, R2, R3, PT"), 1u);
  EXPECT_EQ(compared("ISETP.LT.U32.AND P0, PT, R2, R3, PT"), 0u);
  EXPECT_EQ(compared("ISETP.LT.U32.OR P0, PT, R2, R3, PT"), 1u);
  EXPECT_EQ(compared("ISETP.EQ.U32.XOR P0, PT, R2, R2, PT"), 0u);
  EXPECT_EQ(compared("ISETP.NE.AND P0, PT, R2, R3, !PT"), 0u);
  EXPECT_EQ(compared("ISETP.GT.U64.AND P0, PT, R2, 0x5, PT"), 1u);  // (R3, R2)
}

// Of numbers of 64 bits the lower words are compared first.
TEST(Integer, ComparesWideNumbersWordByWord) {
  const auto less = [](const std::string& a, const std::string& b) {
    return same_result({"MOV R2, " + a, "MOV R3, 0x1", "MOV R4, " + b, "MOV R5, 0x1",
                        "ISETP.LT.U32.AND P0, PT, R2, R4, PT",
                        "ISETP.LT.U32.AND.EX P0, PT, R3, R5, PT, P0", "SEL R0, RZ, 0x1, !P0"});
  };
  EXPECT_EQ(less("0x5", "0x6"), 1u);
  EXPECT_EQ(less("0x6", "0x6"), 0u);
  EXPECT_EQ(less("0x7", "0x6"), 0u);
}

TEST(Integer, AddsAndSelectsWideNumbers) {
  const auto wide = [](const std::string& line) {
    return wide_result({"MOV R2, 0x1", "MOV R3, 0x2", "MOV R4, 0x3", "MOV R5, 0x1",
                        "ISETP.LT.AND P0, PT, RZ, 0x1, PT", line});
  };
  EXPECT_EQ(wide("MOV.64 R0, R2"), 0x200000001u);
  EXPECT_EQ(wide("SEL.64 R0, R2, R4, !P0"), 0x100000003u);
  EXPECT_EQ(wide("SEL.64 R0, R2, -0x1, P0"), 0x200000001u);
  EXPECT_EQ(wide("IMNMX.U64 PT, PT, R0, R2, R4, PT, !PT"), 0x100000003u);
  EXPECT_EQ(wide("IADD3.64 R0, PT, PT, R2, R4, 0x1"), 0x300000005u);
  EXPECT_EQ(wide("CS2R R0, SRZ"), 0u);
  for (const char* unknown :
       {"IADD3.64 R0, !PT, PT, R2, R4, 0x1", "IADD3.64 R0, R7, R7, R2, R4, 0x1",
        "IMNMX.U64 PT, !PT, R0, R2, R4, PT, !PT", "VIMNMX.U16x2 R0, -R2, 0x1, PT"})
    EXPECT_NE(error_of({unknown}).find("not known"), std::string::npos) << unknown;
}

TEST(Integer, MovesPredicates) {
  EXPECT_EQ(same_result({"MOV R2, 0x5", "R2P PR, R2, 0x7", "P2R R0, PR, RZ, 0x7"}), 5u);
  // P2 = P0 and not P1
  EXPECT_EQ(same_result({"MOV R2, 0x1", "R2P PR, R2, 0x3",
                         "PLOP3.LUT P2, P3, P0, P1, PT, 0x20, 0x80", "P2R R0, PR, RZ, 0xc"}),
            4u);
}

}  // namespace
}  // namespace terse::machine
