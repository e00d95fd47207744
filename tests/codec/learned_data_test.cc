// What elements lose that are rounded to levels learned from them, or from others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "learned_levels.h"

namespace terse::codec {
namespace {

double square_cost(double place, const Floats& levels, Rounding rounding) {
  const auto above = std::ranges::lower_bound(levels, place);
  const double high = above == levels.end() ? levels.back() : *above;
  const double low = above == levels.begin() ? levels.front() : above[-1];
  if (rounding != Rounding::kNearest) return (place - low) * (high - place);
  const double least = std::min(std::abs(place - low), std::abs(high - place));
  return least * least;
}

// Of elements rounded to these levels, relative; of stochastic rounding what is expected.
double error_with(const Floats& x, size_t block, const Floats& levels,
                  Rounding rounding = Rounding::kNearest) {
  double squares = 0, all = 0;
  for (size_t first = 0; first < x.size(); first += block) {
    const size_t end = std::min(x.size(), first + block);
    const auto [low, high] = std::minmax_element(x.begin() + first, x.begin() + end);
    const double range = static_cast<double>(*high) - *low;
    for (size_t i = first; i < end; ++i) {
      if (range > 0)
        squares += range * range *
                   square_cost((static_cast<double>(x[i]) - *low) / range, levels, rounding);
      all += static_cast<double>(x[i]) * x[i];
    }
  }
  return std::sqrt(squares / all);
}

Floats levels_of(const float* table, int bits) { return {table, table + codebook_levels(bits)}; }

Floats uniform(int bits) { return levels_of(uniform_codebook(bits), bits); }

Floats learned(const Floats& x, uint32_t block, int bits, Rounding rounding = Rounding::kNearest) {
  return levels_of(fitted_table(x, block, bits, rounding).data(), bits);
}

constexpr Rounding kRoundings[] = {Rounding::kNearest, Rounding::kStochastic};

TEST(LearnedLevels, OneHugeElementHidesNoOthers) {
  const Floats others = gaussian(1 << 15, 5);
  for (const Rounding rounding : kRoundings)
    for (const int bits : {4, 6})
      for (const float huge : {100.0f, 1e4f, 1e5f, 1e6f, 1e36f}) {
        SCOPED_TRACE(testing::Message()
                     << bits << " bits, " << static_cast<int>(rounding) << ", " << huge);
        Floats x = others;
        x[1000] = huge;
        const Floats levels = learned(x, 128, bits, rounding);
        EXPECT_LT(error_with(x, 128, levels, rounding),
                  std::max(error_with(x, 128, uniform(bits), rounding), 0.003));
        EXPECT_LT(error_with(others, 128, levels, rounding),
                  1.25 * error_with(others, 128, uniform(bits), rounding));
      }
}

TEST(LearnedLevels, WhereNothingWasLevelsAreLeftForLaterElements) {
  Floats first(1 << 16, 1);
  for (size_t i = 0; i < first.size(); i += 128) first[i] = 2;
  const Floats later = gaussian(1 << 16, 5);
  for (const Rounding rounding : kRoundings)
    for (const int bits : {3, 4, 6, 8})
      EXPECT_LT(error_with(later, 128, learned(first, 128, bits, rounding), rounding),
                3 * error_with(later, 128, uniform(bits), rounding))
          << bits << " bits";
}

Floats real_gradient() {
  Floats x;
  for (int rank = 0; rank < 4; ++rank) {
    std::ifstream file(TERSE_SAMPLE_DATA "/gradient_rank" + std::to_string(rank) + ".f32",
                       std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const size_t before = x.size();
    x.resize(before + bytes.size() / sizeof(float));
    std::memcpy(x.data() + before, bytes.data(), bytes.size() / sizeof(float) * sizeof(float));
  }
  return x;
}

TEST(LearnedLevels, ARealGradientLosesLess) {
  const Floats x = real_gradient();
  ASSERT_EQ(x.size(), 4u * 98304);
  EXPECT_NEAR(error_with(x, 1024, uniform(4)), 0.1838, 1e-3);
  EXPECT_LT(error_with(x, 1024, learned(x, 1024, 4)), 0.1283);
  EXPECT_NEAR(error_with(x, 1024, uniform(3)), 0.378, 1e-3);
  EXPECT_LT(error_with(x, 1024, learned(x, 1024, 3)), 0.2505);
  EXPECT_NEAR(error_with(x, 128, uniform(4)), 0.1048, 1e-3);
  EXPECT_LT(error_with(x, 128, learned(x, 128, 4)), 0.0915);
}

TEST(LearnedLevels, BellCurvesLoseLess) {
  const Floats x = gaussian(1 << 18, 6);
  EXPECT_LT(error_with(x, 128, learned(x, 128, 4)), 0.089);
  EXPECT_LT(error_with(x, 1024, learned(x, 1024, 4)), 0.0985);
  EXPECT_LT(error_with(x, 1024, learned(x, 1024, 3)), 0.192);
}

}  // namespace
}  // namespace terse::codec
