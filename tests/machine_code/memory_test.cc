// Loads and stores, and what is noticed of those that are wrong.
#include <gtest/gtest.h>

#include <numeric>

#include "assemble.h"
#include "simt/fault.h"

namespace terse::machine {
namespace {

using testing::Test;

const std::vector<std::string> kPointer = {"LDC.64 R2, c[0x0][0x210]"};

std::vector<std::string> with_pointer(std::vector<std::string> lines) {
  lines.insert(lines.begin(), kPointer.begin(), kPointer.end());
  return lines;
}

TEST(Memory, LoadsWhatWasStored) {
  const auto loaded = [](const std::string& load) {
    return same_result(with_pointer(
        {"MOV R4, 0x81828384", "MOV R5, 0x1", "STG.E.64 desc[UR4][R2.64+0x8], R4", load}));
  };
  EXPECT_EQ(loaded("LDG.E R0, desc[UR4][R2.64+0x8]"), 0x81828384u);
  EXPECT_EQ(loaded("LDG.E R0, desc[UR4][R2.64+0xc]"), 1u);
  EXPECT_EQ(loaded("LDG.E.U8 R0, desc[UR4][R2.64+0x9]"), 0x83u);
  EXPECT_EQ(loaded("LDG.E.S8 R0, desc[UR4][R2.64+0x9]"), 0xffffff83u);
  EXPECT_EQ(loaded("LDG.E.U16 R0, desc[UR4][R2.64+0xa]"), 0x8182u);
}

TEST(Memory, OfOthersIsRefused) {
  const auto refused = [](const std::string& line) { return error_of(with_pointer({line})); };
  EXPECT_EQ(refused("LDG.E R0, desc[UR4][R2.64+0x7c]"), "");
  EXPECT_NE(refused("LDG.E R0, desc[UR4][R2.64+0x80]").find("out of bounds"), std::string::npos);
  EXPECT_NE(refused("LDG.E R0, desc[UR4][R2.64+-0x4]").find("out of bounds"), std::string::npos);
  EXPECT_NE(refused("LDG.E.64 R0, desc[UR4][R2.64+0x4]").find("misaligned"), std::string::npos);
  EXPECT_NE(refused("STG.E desc[UR4][R2.64+0x80], R4").find("out of bounds"), std::string::npos);
  EXPECT_NE(refused("LDC R0, c[0x0][0x218]").find("constant"), std::string::npos);
}

TEST(Memory, IsSharedByAddress) {
  const auto shared = [](const std::string& load) {
    return same_result(
        {"S2R R2, SR_TID.X", "MOV R3, 0x400", "STS [R2.X4+0x400], R2", "WARPSYNC.ALL", load});
  };
  EXPECT_EQ(shared("LDS R0, [R3+0x14]"), 5u);
  EXPECT_EQ(shared("LDS.U8 R0, [R3+0x14]"), 5u);
  EXPECT_NE(error_of({"MOV R3, 0x800", "LDS R0, [R3]"}).find("out of bounds"), std::string::npos);
  EXPECT_NE(error_of({"MOV R3, 0x3fc", "LDS R0, [R3]"}).find("out of bounds"), std::string::npos);
  EXPECT_NE(error_of({"MOV R3, 0x402", "LDS R0, [R3]"}).find("misaligned"), std::string::npos);
}

// All lanes add to one word: who has been overtaken tries again.
TEST(Memory, CompareAndSwapLosesNothing) {
  EXPECT_EQ(
      same_result({"MOV R8, 0x400", "STS.64 [R8], RZ", "WARPSYNC.ALL", "again:", "LDS.64 R4, [R8]",
                   "IADD3 R6, R4, 0x3, RZ", "MOV R7, R5", "ATOMS.CAST.SPIN.64 R6, [R8], R4, R6",
                   "ISETP.EQ.U32.AND P0, PT, R6, 0x1, PT", "@!P0 BRA `(again)", "WARPSYNC.ALL",
                   "LDS R0, [R8]"}),
      96u);
  EXPECT_EQ(
      same_result({"MOV R8, 0x400", "STS.64 [R8], RZ", "WARPSYNC.ALL", "again:", "LDS.64 R4, [R8]",
                   "IADD3 R6, R4, 0x3, RZ", "MOV R7, R5", "ATOMS.CAST.SPIN.64 P0, [R8], R4, R6",
                   "@!P0 BRA `(again)", "WARPSYNC.ALL", "LDS R0, [R8]"}),
      96u);
}

TEST(Memory, ConstantsAreLoadedInParts) {
  const auto loaded = [](const std::string& load, int reg) {
    return same_result({load, "MOV R0, UR" + std::to_string(reg)});
  };
  // Sizes of a block and of the grid.
  EXPECT_EQ(loaded("LDCU UR4, c[0x0][0x0]", 4), 32u);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(loaded("LDCU.128 UR4, c[0x0][0x0]", 4 + i),
              loaded(std::string("LDCU UR4, c[0x0][0x") + "048c"[i] + "]", 4));
  EXPECT_NE(error_of({"LDCU.128 UR4, c[0x0][0x8]"}).find("misaligned"), std::string::npos);
}

TEST(Memory, ReductionsAreAtomic) {
  EXPECT_EQ(
      same_result(with_pointer({"MOV R4, 0x2", "MOV R5, RZ", "STG.E.64 desc[UR4][R2.64], RZ",
                                "WARPSYNC.ALL", "REDG.E.ADD.64.STRONG.GPU desc[UR4][R2.64], R4",
                                "WARPSYNC.ALL", "LDG.E R0, desc[UR4][R2.64]"})),
      64u);
  EXPECT_EQ(same_result(with_pointer({"MOV R4, 0x2", "MOV R5, RZ", "STG.E.64 [R2.64], RZ",
                                      "WARPSYNC.ALL", "RED.E.ADD.64.STRONG.GPU [R2.64], R4",
                                      "WARPSYNC.ALL", "LDG.E R0, [R2.64]"})),
            64u);
  EXPECT_EQ(same_result(with_pointer({"S2R R4, SR_LANEID", "STG.E desc[UR4][R2.64], RZ",
                                      "WARPSYNC.ALL", "REDG.E.MAX.STRONG.GPU desc[UR4][R2.64], R4",
                                      "WARPSYNC.ALL", "LDG.E R0, desc[UR4][R2.64]"})),
            31u);
}

}  // namespace
}  // namespace terse::machine
