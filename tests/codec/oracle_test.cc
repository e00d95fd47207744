// The oracle itself: FORMAT.md's worked examples, and the published vectors of Philox and
// splitmix64.
#include "oracle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace terse::codec {
namespace {

const Spec kInt4 = make_spec({kSymmetric, Rounding::kNearest}, 4, 32);
const Spec kMinMax3 = make_spec({kMinMax, Rounding::kNearest}, 3, 32);
const Floats kFirst = {1, -3.5, 0.26f, 0, 7}, kSecond = {-1, -0.5, 1, 2.5}, kThird = {-1, 0, 1, 3};
const Bytes kFirstBody = {0xc1, 0x00, 0x07, 0x00, 0x00, 0x00, 0xe0, 0x40};
const Bytes kSecondBody = {0x08, 0x0f, 0, 0, 0, 0, 0x80, 0xbf, 0, 0, 0, 0x3f};
const Bytes kThirdBody = {0x47, 0x06, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x80, 0x3f};

TEST(Oracle, FirstWorkedExample) {
  EXPECT_EQ(oracle::encode(kInt4, {}, kFirst), kFirstBody);
  EXPECT_EQ(oracle::decode(kInt4, kFirstBody, 5), (Floats{1, -4, 0, 0, 7}));
}

TEST(Oracle, SecondWorkedExample) {
  EXPECT_EQ(oracle::encode(kMinMax3, {}, kSecond), kSecondBody);
  EXPECT_EQ(oracle::decode(kMinMax3, kSecondBody, 4), kSecond);
}

TEST(Oracle, ThirdWorkedExample) {
  EXPECT_EQ(oracle::encode(kMinMax3, {}, kThird), kThirdBody);
  EXPECT_EQ(oracle::decode(kMinMax3, kThirdBody, 4), kThird);
}

TEST(Oracle, FourthWorkedExample) {
  const Bytes packed = {0x54, 0x52, 0x53, 0x45, 0x04, 0x01, 0x04, 0x07, 0x20, 0x00,
                        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00,
                        0x00, 0x00, 0x00, 0x00, 0xae, 0x36, 0x35, 0xc7, 0x42, 0x00,
                        0x00, 0x00, 0xc1, 0x00, 0x07, 0x00, 0x00, 0x00, 0xe0, 0x40};
  EXPECT_EQ(oracle::seal(kInt4, Dtype::kFloat32, 5, kFirstBody), packed);
  EXPECT_TRUE(oracle::acceptable(packed));
}

// Random123 1.14, tests/kat_vectors, philox4x32 7.
TEST(Oracle, PhiloxKnownAnswers) {
  const struct {
    oracle::Words4 counter;
    uint64_t key;
    oracle::Words4 answer;
  } vectors[] = {
      {{{0, 0, 0, 0}}, 0, {{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}}},
      {{{~0u, ~0u, ~0u, ~0u}}, ~0ull, {{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0x299f31d0a4093822,
       {{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}}}};
  for (const auto& v : vectors) {
    const oracle::Words4 got = oracle::philox4x32_7(v.counter, v.key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.w[i], v.answer.w[i]) << "word " << i;
  }
}

// Vigna's reference generator from state 0 (splitmix64.c, as in the JDK's SplittableRandom).
TEST(Oracle, SplitmixKnownAnswers) {
  EXPECT_EQ(oracle::mix(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(oracle::mix(0x9E3779B97F4A7C15), 0x6E789E6AA1B965F4u);
}

TEST(Oracle, SmallFloatsKnownValues) {
  EXPECT_EQ(oracle::widen(Dtype::kFloat16, 0x3c00), 1.0f);
  EXPECT_EQ(oracle::widen(Dtype::kFloat16, 0x7bff), 65504.0f);
  EXPECT_EQ(oracle::widen(Dtype::kFloat16, 0x8001), -0x1p-24f);
  EXPECT_EQ(oracle::widen(Dtype::kBfloat16, 0xc049), -3.140625f);
  EXPECT_EQ(oracle::narrow(Dtype::kFloat16, 65519.996f), 0x7bffu);  // below the tie to infinity
  EXPECT_EQ(oracle::narrow(Dtype::kFloat16, 65520.0f), 0x7c00u);
  EXPECT_EQ(oracle::narrow(Dtype::kFloat16, 0x1p-25f), 0u);  // a tie, to even
  EXPECT_EQ(oracle::narrow(Dtype::kFloat16, 0x1.8p-24f), 2u);
  EXPECT_EQ(oracle::narrow(Dtype::kBfloat16, 1.00390625f), 0x3f80u);  // a tie, to even
  EXPECT_EQ(oracle::narrow(Dtype::kFloat32, -0.0f), 0x80000000u);
  EXPECT_EQ(oracle::narrow(Dtype::kFloat32, -NAN), 0x7fc00000u);
}

}  // namespace
}  // namespace terse::codec
