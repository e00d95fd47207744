// Linear codes: the parts of an encoding, and sums of codes as NCCL forms them (FORMAT.md, section
// 4, "Linear").
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "on_shared_grid.h"
#include "oracle_formats.h"
#include "support.h"

namespace terse::codec {
namespace {

constexpr CodecId kLinear8 = Linear<8>::kDescriptor.id, kLinear16 = Linear<16>::kDescriptor.id;

Spec linear(int bits, int ranks, size_t block = 64, Rounding rounding = Rounding::kStochastic,
            Number scale = Number::kFp32) {
  return {.codec = bits == 8 ? kLinear8 : kLinear16,
          .rounding = rounding,
          .bits = static_cast<uint8_t>(bits),
          .block = static_cast<uint16_t>(block),
          .scale = scale,
          .ranks = static_cast<uint16_t>(ranks)};
}

Bytes bytes_of(const Spec& spec, const std::vector<int>& codes) {
  Bytes bytes(body_layout(spec, codes.size()).params_offset);
  for (size_t i = 0; i < codes.size(); ++i)
    std::memcpy(&bytes[i * spec.bits / 8], &codes[i], spec.bits / 8);
  return bytes;
}

TEST(Linear, PartsAreTheOraclesForTheParametersThatAllAgreeOn) {
  Random random(81);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t ranks = 1 + random.below(8), count = 1 + random.below(700);
    const Spec spec =
        linear(random.below(2) ? 8 : 16, static_cast<int>(ranks), 32 * (1 + random.below(9)),
               random.below(2) ? Rounding::kNearest : Rounding::kStochastic,
               random.below(2) ? Number::kFp32 : Number::kBf16);
    std::vector<Floats> given;
    for (size_t r = 0; r < ranks; ++r)
      given.push_back(numbers(static_cast<Kin>(random.below(kKins)), count, random));
    Ranks all(spec, given);
    SCOPED_TRACE(describe(spec) + " count " + std::to_string(count));
    Floats wanted(count, 0);
    for (size_t first = 0; first < count; first += spec.block) {
      const size_t n = std::min<size_t>(spec.block, count - first);
      const auto part = [&](size_t r) {
        return Floats(given[r].begin() + first, given[r].begin() + first + n);
      };
      float absmax = 0;
      for (size_t r = 0; r < ranks; ++r) {
        const float own = oracle::format(spec).encode(spec, {}, 0, part(r)).params[0];
        absmax = std::isfinite(own) ? std::max(absmax, own) : own;
        if (!std::isfinite(own)) break;
      }
      std::vector<int> total(n, 0);
      for (size_t r = 0; r < ranks; ++r) {
        const Stream stream{.rank = static_cast<uint32_t>(r)};
        const std::vector<int> codes = oracle::linear_codes(spec, stream, first, part(r), absmax);
        const Bytes got = all.codes(r);
        const size_t at = first * spec.bits / 8;
        ASSERT_TRUE(std::equal(got.begin() + at, got.begin() + at + n * spec.bits / 8,
                               bytes_of(spec, codes).begin()))
            << "rank " << r << " block at " << first;
        for (size_t i = 0; i < n; ++i) total[i] += codes[i];
      }
      for (size_t i = 0; i < n; ++i)
        wanted[first + i] = oracle::format(spec).decode(spec, total[i], {absmax}, 0.5f);
    }
    const Floats got = all.sum(0.5f);
    ASSERT_EQ(oracle::to_memory(Dtype::kFloat32, got), oracle::to_memory(Dtype::kFloat32, wanted));
    ASSERT_TRUE(all.intact());
  }
}

// An encoding in one go is that of its parts.
TEST(Linear, OfOneRankIsAFormatLikeOthers) {
  for (const int bits : {8, 16}) {
    const Floats x = gaussian(1000, 5);
    const Spec spec = linear(bits, 1);
    const Ranks alone(spec, {x});
    Bytes wanted = alone.codes(0);
    const Bytes params = alone.params(0);
    wanted.insert(wanted.end(), params.begin(), params.end());
    EXPECT_EQ(encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x)), wanted);
  }
}

// All codes are the largest or the smallest, and their neighbours in a word the other: nothing is
// carried from one to the next.
TEST(Linear, SumsOfTheLargestAreExact) {
  for (const int bits : {8, 16})
    for (const size_t ranks : {1, 2, 3, 4, 5, 7, 8, 16, 64})
      for (const float absmax : {1.0f, 0.7f, 3e-30f, 1e36f}) {
        SCOPED_TRACE(std::to_string(bits) + " bits " + std::to_string(ranks) + " ranks");
        Floats x(130);
        for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 1 ? -absmax : absmax;
        const int n = static_cast<int>(ranks);
        const std::vector<Floats> given(ranks, x);
        const Floats exact = Ranks(linear(bits, n), given).sum();
        // The parameter is rounded up.
        const Spec rounded = linear(bits, n, 64, Rounding::kNearest, Number::kBf16);
        const Floats near = Ranks(rounded, given).sum();
        for (size_t i = 0; i < x.size(); ++i) {
          const float wanted = x[i] * static_cast<float>(ranks);
          ASSERT_EQ(exact[i], wanted) << i;
          ASSERT_NEAR(near[i] / wanted, 1, 0x1p-6) << i;
        }
      }
}

// Elements beyond what bf16 can store as a parameter; and means of what is near the end of fp32.
TEST(Linear, TheEndsOfFp32AreFinite) {
  for (const int bits : {8, 16})
    for (const Number scale : {Number::kFp32, Number::kBf16}) {
      const Floats x = {FLT_MAX, -FLT_MAX, 0.0f, FLT_MAX / 2};
      Ranks all(linear(bits, 4, 64, Rounding::kNearest, scale), std::vector<Floats>(4, x));
      const Floats got = all.sum(0.25f);
      const double steps = levels(bits, 4);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_LE(std::fabs(got[i] / double{FLT_MAX} - x[i] / double{FLT_MAX}),
                  0.5 / steps + 0x1p-7)
            << bits << " " << i;
    }
}

TEST(Linear, ZerosStayPositiveZeros) {
  for (const int bits : {8, 16}) {
    Ranks all(linear(bits, 3), std::vector<Floats>(3, Floats(100, -0.0f)));
    for (const float value : all.sum()) EXPECT_EQ(float_bits(value), 0u);
  }
}

TEST(Linear, WhatIsNotFiniteOnOneRankIsNanInItsBlockForAll) {
  for (const int bits : {8, 16})
    for (const Number scale : {Number::kFp32, Number::kBf16})
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        std::vector<Floats> given = gaussians(3, 300, 6);
        given[1][100] = bad;
        Ranks all(linear(bits, 3, 64, Rounding::kStochastic, scale), given);
        const Floats got = all.sum();
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(std::isnan(got[i]), i / 64 == 100 / 64) << i;
      }
}

// Global-QSGD's setting: one scale for the whole call.
TEST(Linear, HasTheErrorOfGlobalQsgdWithOneScale) {
  constexpr size_t kCount = 40'000;
  for (const size_t ranks : {4, 8, 16}) {
    const std::vector<Floats> given = gaussians(ranks, kCount, 7);
    const int n = static_cast<int>(ranks);
    const auto [got, absmax] = sum_on_one_scale(linear(8, n), given);
    // Each of the ranks' roundings has the variance of p (1 - p) steps, 1/6 on average.
    const double step = double{absmax} / levels(8, n);
    EXPECT_NEAR(relative_square(got, exact_sum(given)) / (step * step / 6), 1, 0.03) << ranks;
  }
}

// The mean over draws; ranks draw apart, so that errors of equal contributions do not add up.
TEST(Linear, StochasticSumsAreUnbiasedAndRanksDrawApart) {
  constexpr size_t kRanks = 4, kCount = 4096;
  const Floats x = gaussian(kCount, 9);
  for (const int bits : {8, 16}) {
    const std::vector<Floats> given(kRanks, x);
    Ranks all(linear(bits, kRanks, 4096), given);
    const Floats got = all.sum();
    const double absmax =
        std::fabs(*std::ranges::max_element(x, {}, [](float v) { return std::fabs(v); }));
    const double step = absmax / levels(bits, kRanks);
    double error = 0, square = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double e = (got[i] - kRanks * double{x[i]}) / step;
      error += e;
      square += e * e;
    }
    // Each rounding has a variance of p (1 - p), 1/6 on average: that of the sum is 4/6 apart, 16/6
    // together.
    EXPECT_NEAR(square / kCount, kRanks / 6.0, 0.06);
    EXPECT_NEAR(error / kCount, 0, 4 * std::sqrt(kRanks / 6.0 / kCount));
  }
}

TEST(Linear, LevelsAreRefusedWhereThereAreNone) {
  EXPECT_EQ(fault(linear(8, 127)), nullptr);
  EXPECT_STREQ(fault(linear(8, 128)), "it has no levels for so many ranks");
  EXPECT_EQ(fault(linear(16, 32767)), nullptr);
  EXPECT_STREQ(fault(linear(16, 32768)), "it has no levels for so many ranks");
  EXPECT_STREQ(fault(linear(8, 0)), "it has no levels for so many ranks");
  Spec other = make_spec({kSymmetric, Rounding::kNearest}, 8, 64);
  other.ranks = 2;
  EXPECT_STREQ(fault(other), "its codes cannot be summed");
}

}  // namespace
}  // namespace terse::codec
