// What rounding does on average: bias, mean square error in units of steps, and the relative error
// on bell-shaped data.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support.h"

namespace terse::codec {
namespace {

constexpr Kind kSymmetricNearest = {kSymmetric, Rounding::kNearest};
constexpr Kind kSymmetricStochastic = {kSymmetric, Rounding::kStochastic};

// Uniform in -1..1, with both ends in every block, so that steps are the same throughout.
Floats level(size_t n, size_t block, uint64_t seed) {
  Random random(seed);
  Floats x(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t at = i % block;
    x[i] = at == 0 ? -1.0f : at == 1 ? 1.0f : static_cast<float>(2 * random.uniform() - 1);
  }
  return x;
}

double step_of(const Spec& s) { return 2.0 / ((1 << s.bits) - (s.codec == kSymmetric ? 2 : 1)); }

// The largest bias of any element of a block, in steps, over `draws` encodings of that block: each
// place in the body draws anew.
double bias(const Spec& spec, size_t draws) {
  const Floats block = level(spec.block, spec.block, 51);
  Floats x;
  for (size_t draw = 0; draw < draws; ++draw) x.insert(x.end(), block.begin(), block.end());
  const Floats got = round_trip(spec, {.seed = 3}, x);
  std::vector<double> error(spec.block);
  for (size_t i = 0; i < x.size(); ++i)
    error[i % spec.block] += (double{got[i]} - x[i]) / step_of(spec);
  double worst = 0;
  for (double e : error) worst = std::max(worst, std::fabs(e / static_cast<double>(draws)));
  return worst;
}

// The standard error of one element's mean is at most 0.5 / sqrt(80000) = 0.0018 steps.
TEST(Statistics, StochasticAndShiftAreUnbiased) {
  for (Kind kind : kIntegerKinds) {
    if (kind.rounding == Rounding::kNearest) continue;
    for (int bits : {2, 4, 8}) {
      const Spec spec = make_spec(kind, bits, 32);
      EXPECT_LT(bias(spec, 80000), 0.01) << describe(spec);
    }
  }
}

// Whatever the steps: the mean error of each element is within what its scatter explains, or that
// it has not yet been drawn to the farther one of its two neighbours, which as many draws do not
// see only where they see it less than 12 times on average.
void expect_unbiased(const Spec& spec, const Floats& block) {
  constexpr size_t kDraws = 4000;  // larger blocks hold it many times
  const size_t period = block.size();
  Floats x;
  for (size_t draw = 0; draw < kDraws; ++draw) x.insert(x.end(), block.begin(), block.end());
  const Floats got = round_trip(spec, {.seed = 4}, x);
  std::vector<double> mean(period), square(period);
  std::vector<std::set<float>> drawn(period);
  double farthest = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double error = double{got[k]} - x[k];
    mean[k % period] += error / kDraws;
    square[k % period] += error * error / kDraws;
    drawn[k % period].insert(got[k]);
    farthest = std::max(farthest, std::fabs(error));
  }
  for (size_t i = 0; i < period; ++i) {
    const double unseen = drawn[i].size() == 1 ? 12 * farthest / kDraws : 0;
    EXPECT_LT(std::fabs(mean[i]),
              6 * std::sqrt(square[i] / kDraws) + unseen + 1e-6 * std::fabs(block[i]))
        << describe(spec) << " element " << i;
  }
}

TEST(Statistics, EveryStochasticSchemeIsUnbiased) {
  const Floats block = gaussian(32, 57);  // to nearest, NVFP4 would saturate
  for (const Spec& spec : every_spec(block.size()))
    if (spec.rounding != Rounding::kNearest) expect_unbiased(spec, block);
}

// With a zero, or of one sign.
TEST(Statistics, EveryKindOfBlockIsUnbiased) {
  Floats zero = gaussian(32, 57), positive = zero, negative = zero;
  zero[5] = 0;
  for (float& x : positive) x = std::fabs(x);
  for (float& x : negative) x = -std::fabs(x);
  for (const Spec& spec : every_spec(32)) {
    const bool has_kinds = spec.codec == kMinMax || descriptor(spec.codec).codebook;
    if (spec.rounding == Rounding::kNearest || !has_kinds) continue;
    for (const Floats& block : {zero, positive, negative}) expect_unbiased(spec, block);
  }
}

TEST(Statistics, NearestIsBiased) {
  EXPECT_GT(bias(make_spec(kSymmetricNearest, 4, 32), 2000), 0.2);
}

double mean_square_error_in_steps(const Spec& spec) {
  const Floats x = level(size_t{1} << 18, spec.block, 52);
  const Floats got = round_trip(spec, {.seed = 1}, x);
  double total = 0, n = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % spec.block < 2) continue;
    const double error = (double{got[i]} - x[i]) / step_of(spec);
    total += error * error;
    n += 1;
  }
  return total / n;
}

TEST(Statistics, MeanSquareErrorInSteps) {
  for (Kind kind : kIntegerKinds) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
      // Small blocks: random shift draws once in a block.
      const Spec spec = make_spec(kind, bits, 64);
      const double expected = kind.rounding == Rounding::kStochastic ? 1.0 / 6 : 1.0 / 12;
      EXPECT_NEAR(mean_square_error_in_steps(spec) / expected, 1, 0.02) << describe(spec);
    }
  }
}

double relative_error(const Spec& spec) {
  const Floats x = gaussian(size_t{1} << 19, 53);
  return codec::relative_error(x, round_trip(spec, {.seed = 2}, x));
}

TEST(Statistics, RelativeErrorOnGaussianData) {
  EXPECT_NEAR(relative_error(make_spec(kSymmetricNearest, 4, 128)) / 0.117, 1, 0.02);
  EXPECT_NEAR(relative_error(make_spec(kSymmetricStochastic, 4, 128)) / 0.166, 1, 0.02);
  EXPECT_NEAR(relative_error(make_spec(kSymmetricNearest, 8, 128)) / 0.0065, 1, 0.02);

  // Floats of m mantissa bits, of numbers of all magnitudes: about 0.2 * 2^-m.
  const struct {
    const char* scheme;
    double error;
  } figures[] = {{"int4:block=64,round=nearest,scale=bf16", 0.108},
                 {"int4:block=64,round=nearest,scale=bf16,fit=mse", 0.0905},
                 {"int4:block=128,round=nearest,hadamard=32", 0.117},
                 {"learned4:block=128,round=nearest", 0.0998},
                 {"mxfp4:round=nearest", 0.115},
                 {"nvfp4:round=nearest", 0.0953},
                 {"mxfp6:round=nearest", 0.02836},
                 {"mxfp8:round=nearest", 0.02927},
                 {"fp8e4m3:block=128,round=nearest", 0.02576},
                 {"fp8e5m2:block=128,round=nearest", 0.05127},
                 {"bf16:round=nearest", 0.00166},
                 {"fp16:round=nearest", 0.000208}};
  for (const auto& figure : figures) {
    const auto named = [&](const Spec& spec) { return describe(spec) == figure.scheme; };
    Spec found{};
    for (size_t block : {64, 128})
      for (const Spec& spec : every_spec(block))
        if (named(spec)) found = spec;
    EXPECT_NEAR(relative_error(found) / figure.error, 1, 0.02) << figure.scheme;
  }
}

// What the transform leaves over shares the last block's scale with what it has made smaller.
TEST(Statistics, WhatTheTransformLeavesOverSpoilsNoBlock) {
  for (const size_t block : {128, 1024, 4096})
    for (const size_t left : {1, 31}) {
      Spec spec{.bits = 4, .block = static_cast<uint16_t>(block)};
      const Floats x = gaussian(block - kHadamard + left, 59);
      const double plain = codec::relative_error(x, round_trip(spec, {.seed = 2}, x));
      spec.hadamard = kHadamard;
      EXPECT_LT(codec::relative_error(x, round_trip(spec, {.seed = 2}, x)), 1.35 * plain)
          << "block " << block << ", " << left << " left over";
    }
}

// The errors of two ranks that encode the same numbers: independent, so they average out.
TEST(Statistics, RanksDrawIndependently) {
  const Spec spec = make_spec(kSymmetricStochastic, 4, 128);
  const Floats x = gaussian(size_t{1} << 17, 54);
  const Floats a = round_trip(spec, {.rank = 0}, x), b = round_trip(spec, {.rank = 1}, x);
  double ab = 0, aa = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    ab += (double{a[i]} - x[i]) * (double{b[i]} - x[i]);
    aa += (double{a[i]} - x[i]) * (double{a[i]} - x[i]);
  }
  EXPECT_NEAR(ab / aa, 0, 0.02);
}

}  // namespace
}  // namespace terse::codec
