// Arithmetic on numbers and conversions, by IEEE 754 and the PTX ISA.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "assemble.h"

namespace terse::machine {
namespace {

constexpr uint32_t kNan = 0x7fffffff;

uint32_t of(const std::string& line, const std::string& r2, const std::string& r3 = "0x0") {
  return same_result({"MOV R2, " + r2, "MOV R3, " + r3, line});
}

float real(const std::string& line, const std::string& r2, const std::string& r3 = "0x0") {
  return std::bit_cast<float>(of(line, r2, r3));
}

TEST(Real, AddsAndMultiplies) {
  EXPECT_EQ(real("FADD R0, R2, 1.5", "0x3f800000"), 2.5f);
  EXPECT_EQ(real("FADD R0, -R2, |R3|", "0x3f800000", "0xc0000000"), 1.0f);
  EXPECT_EQ(real("FMUL R0, R2, -3", "0x3f800000"), -3.0f);
  EXPECT_EQ(real("FFMA R0, R2, R3, 1", "0x40000000", "0x40400000"), 7.0f);
}

TEST(Real, RoundsAsItSays) {
  const auto sum = [](const std::string& mode) {  // 1 and a third of the last place
    return of("FADD" + mode + " R0, R2, R3", "0x3f800000", "0x33000000");
  };
  EXPECT_EQ(sum(""), 0x3f800000u);
  EXPECT_EQ(sum(".RP"), 0x3f800001u);
  EXPECT_EQ(sum(".RM"), 0x3f800000u);
  EXPECT_EQ(of("FADD.RM R0, R2, -R3", "0x3f800000", "0x33000000"), 0x3f7fffffu);
  EXPECT_EQ(of("FADD.RZ R0, -R2, R3", "0x3f800000", "0x33000000"), 0xbf7fffffu);
  EXPECT_EQ(of("FADD R0, -R2, R3", "0x3f800000", "0x32000000"), 0xbf800000u);
}

// A product that is added keeps all of its places.
TEST(Real, FusedIsRoundedOnce) {
  const std::string x = "0x3f800001";
  EXPECT_EQ(of("FFMA R0, R2, R2, -1.00000023841857910156", x), 0x28800000u);
  EXPECT_EQ(
      same_result({"MOV R2, " + x, "FMUL R3, R2, R2", "FADD R0, R3, -1.00000023841857910156"}), 0u);
}

TEST(Real, FlushesSubnormalsWithFtzAlone) {
  EXPECT_EQ(of("FADD R0, R2, RZ", "0x00000001"), 1u);
  EXPECT_EQ(of("FADD.FTZ R0, R2, RZ", "0x00000001"), 0u);
  EXPECT_EQ(of("FMUL.FTZ R0, R2, 0.5", "0x00800000"), 0u);
}

TEST(Real, EveryNanIsTheSame) {
  EXPECT_EQ(of("FADD R0, R2, R3", "0xffc12345", "0x3f800000"), kNan);
  EXPECT_EQ(of("FADD R0, R2, -R2", "0x7f800000"), kNan);
  EXPECT_EQ(of("MUFU.RSQ R0, -QNAN ", "0x0"), kNan);
}

TEST(Real, ExtremesOrderZerosAndNans) {
  EXPECT_EQ(of("FMNMX R0, R2, R3, PT", "0x80000000", "0x0"), 0x80000000u);
  EXPECT_EQ(of("FMNMX R0, R2, R3, !PT", "0x80000000", "0x0"), 0u);
  EXPECT_EQ(of("FMNMX R0, R2, R3, PT", "0x7fc00000", "0x3f800000"), 0x3f800000u);
  EXPECT_EQ(of("FMNMX.NAN R0, R2, R3, PT", "0x7fc00000", "0x3f800000"), kNan);
}

TEST(Real, ComparesOrderedAndUnordered) {
  const auto compared = [](const std::string& how, const std::string& r2) {
    return same_result(
        {"MOV R2, " + r2, "FSETP." + how + ".AND P0, PT, R2, 1, PT", "SEL R0, RZ, 0x1, !P0"});
  };
  EXPECT_EQ(compared("LT", "0x3f000000"), 1u);
  EXPECT_EQ(compared("NE", "0x7fc00000"), 0u);
  EXPECT_EQ(compared("NEU", "0x7fc00000"), 1u);
  EXPECT_EQ(compared("GTU", "0x7fc00000"), 1u);
  EXPECT_EQ(compared("NAN", "0x7fc00000"), 1u);
  EXPECT_EQ(compared("NAN", "0x3f000000"), 0u);
}

// A GPU's reciprocal is right to one step of the last place: any such value may be drawn.
TEST(Real, ReciprocalsAreApproximate) {
  for (uint64_t seed = 1; seed < 20; ++seed)
    for (const uint32_t bits : result({"MOV R2, 0x40400000", "MUFU.RCP R0, R2"}, seed))
      EXPECT_LE(std::abs(static_cast<int>(bits) - 0x3eaaaaab), 1);
}

// 1 / 1.99999988 by a division's steps: from 0.5, as near as the quotient, they would not end in
// it.
TEST(Real, ReciprocalsServeDivisions) {
  for (uint64_t seed = 1; seed < 20; ++seed)
    for (const uint32_t bits :
         result({"MOV R2, 0x3fffffff", "MUFU.RCP R3, R2", "FFMA R4, R3, -R2, 1",
                 "FFMA R3, R3, R4, R3", "FFMA R4, R3, -R2, 1", "FFMA R0, R3, R4, R3"},
                seed))
      EXPECT_EQ(bits, 0x3f000001u);
}

TEST(Double, ComputesIn64Bits) {
  const std::vector<std::string> third = {"MOV R2, 0x55555555", "MOV R3, 0x3fd55555"};
  const auto then = [&](const std::string& line) {
    return std::bit_cast<double>(wide_result({third[0], third[1], line}));
  };
  constexpr double kThird = 1.0 / 3;
  EXPECT_EQ(then("DADD R0, R2, 1"), kThird + 1);
  EXPECT_EQ(then("DMUL R0, R2, R2"), kThird * kThird);
  EXPECT_EQ(then("DFMA R0, R2, R2, -R2"), std::fma(kThird, kThird, -kThird));
  EXPECT_EQ(then("F2F.F64.F32 R0, R3"), std::bit_cast<float>(0x3fd55555));
  EXPECT_EQ(same_result({third[0], third[1], "F2F.F32.F64 R0, R2"}), 0x3eaaaaabu);
  EXPECT_NEAR(then("MUFU.RCP64H R1, R3"), 3, 1e-5);
}

TEST(Double, Compares) {
  const auto compared = [](const std::string& line) {
    return same_result({"MOV R2, RZ", "MOV R3, 0x3fd00000", line, "SEL R0, RZ, 0x1, !P0"});
  };
  EXPECT_EQ(compared("DSETP.GE.AND P0, PT, R2, RZ, PT"), 1u);
  EXPECT_EQ(compared("DSETP.GT.AND P0, PT, R2, 0.5, PT"), 0u);
  EXPECT_EQ(compared("DSETP.MIN.AND P0, P1, R2, 1, PT"), 1u);
  EXPECT_EQ(compared("DSETP.NAN.AND P0, PT, R2, R2, PT"), 0u);
}

TEST(Conversion, OfDoubles) {
  const auto truncated = [](const std::string& high) {
    return same_result({"MOV R2, RZ", "MOV R3, " + high, "F2I.U32.F64.TRUNC R0, R2"});
  };
  EXPECT_EQ(truncated("0x400c0000"), 3u);  // 3.5
  EXPECT_EQ(truncated("0xbff00000"), 0u);
  EXPECT_EQ(truncated("0x7ff80000"), 0x80000000u);  // NaN
  EXPECT_EQ(wide_result({"MOV R2, 0x3", "I2F.F64.U32 R0, R2"}), 0x4008000000000000u);
}

TEST(Conversion, OfIntegers) {
  EXPECT_EQ(real("I2FP.F32.S32 R0, R2", "0xffffffff"), -1.0f);
  EXPECT_EQ(real("I2FP.F32.U32 R0, R2", "0xffffffff"), 0x1p32f);
  EXPECT_EQ(real("I2F.U16 R0, R2", "0xffff0003"), 3.0f);
  EXPECT_EQ(of("I2F.U32.RP R0, R2", "0x1000001"), 0x4b800001u);
  EXPECT_EQ(real("I2F.U64 R0, R2", "0x0", "0x1"), 0x1p32f);
  EXPECT_EQ(of("F2I.U32.TRUNC.NTZ R0, R2", "0x40700000"), 3u);
  EXPECT_EQ(of("F2I.U32.TRUNC.NTZ R0, R2", "0xbf800000"), 0u);
  EXPECT_EQ(of("F2I.U32.TRUNC.NTZ R0, R2", "0x7fc00000"), 0u);
  EXPECT_EQ(of("F2I.U32.TRUNC.NTZ R0, R2", "0x7f800000"), ~0u);
}

TEST(Conversion, ToHalvesIsToTheNearestEvenOne) {
  const auto packed = [](const std::string& type, const std::string& x) {
    return of("F2FP." + type + ".F32.PACK_AB R0, RZ, R2", x);
  };
  EXPECT_EQ(packed("BF16", "0x3f808000"), 0x3f80u);  // half way
  EXPECT_EQ(packed("BF16", "0x3f818000"), 0x3f82u);
  EXPECT_EQ(packed("BF16", "0x7f7fffff"), 0x7f80u);
  EXPECT_EQ(packed("BF16", "0xffc00000"), 0x7fffu);
  EXPECT_EQ(packed("F16", "0x3f800000"), 0x3c00u);
  EXPECT_EQ(packed("F16", "0x33800000"), 0x0001u);  // the smallest subnormal
  EXPECT_EQ(packed("F16", "0x33000000"), 0x0000u);  // half of it
  EXPECT_EQ(packed("F16", "0x477ff000"), 0x7c00u);  // 65520
  EXPECT_EQ(packed("F16", "0x477fefff"), 0x7bffu);
  EXPECT_EQ(of("F2FP.F16.F32.PACK_AB R0, R2, R3", "0x40000000", "0xbf800000"), 0x4000bc00u);
  EXPECT_EQ(real("HADD2.F32 R0, -RZ, R2.H1_H1", "0x40003c00"), 2.0f);
  EXPECT_EQ(real("HADD2.F32 R0, -RZ, R2.H0_H0", "0x00000001"), 0x1p-24f);
  EXPECT_EQ(of("HFMA2.MMA R0, -RZ, RZ, 1.875, 0", "0x0"), 0x3f800000u);
}

TEST(Conversion, ToEightBitsSaturates) {
  const auto packed = [](const std::string& type, const std::string& x) {
    return of("F2FP.SATFINITE." + type + ".F32.PACK_AB_MERGE_C R0, RZ, R2, RZ", x);
  };
  EXPECT_EQ(packed("E4M3", "0x3f800000"), 0x38u);
  EXPECT_EQ(packed("E4M3", "0x43e00000"), 0x7eu);  // 448
  EXPECT_EQ(packed("E4M3", "0x7f800000"), 0x7eu);
  EXPECT_EQ(packed("E4M3", "0x7fc00000"), 0x7fu);
  EXPECT_EQ(packed("E4M3", "0x3b000000"), 0x01u);  // 2^-9
  EXPECT_EQ(packed("E5M2", "0x47800000"), 0x7bu);  // 65536, of 57344
  EXPECT_EQ(of("F2FP.F16.E4M3.UNPACK_B R0, R2", "0x7e38"), 0x5f003c00u);
  EXPECT_EQ(of("F2FP.F16.E5M2.UNPACK_B R0, R2", "0x3c7c"), 0x3c007c00u);
  EXPECT_EQ(of("F2FP.F16.E5M2.UNPACK_B R0, R2.H1", "0x3c7c0000"), 0x3c007c00u);
  EXPECT_NE(error_of({"F2FP.F16.E5M2.UNPACK_B R0, -R2.H1"}).find("not known"), std::string::npos);
}

// As nvcc divides: by steps that give the quotient from any approximation, or, where an exponent is
// extreme, by a function. FCHK says which.
TEST(Real, DivisionIsCheckedForExtremes) {
  const auto checked = [](const std::string& over, const std::string& under) {
    return same_result(
        {"MOV R2, " + over, "MOV R3, " + under, "FCHK P0, R2, R3", "SEL R0, RZ, 0x1, !P0"});
  };
  EXPECT_EQ(checked("0x3f800000", "0x40400000"), 0u);
  EXPECT_EQ(checked("0x3f800000", "0x00000001"), 1u);
  EXPECT_EQ(checked("0x7f800000", "0x3f800000"), 1u);
  EXPECT_EQ(checked("0x00000000", "0x3f800000"), 1u);
}

}  // namespace
}  // namespace terse::machine
