// How levels are learned, against what is written here from its description alone.
#include "codec/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "codec/codebook.h"
#include "codec/float16.h"
#include "support.h"

namespace terse::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Stage = Learning::Stage;

struct State : LearningState {
  State() { std::memset(static_cast<LearningState*>(this), 0xab, sizeof(LearningState)); }
};

template <class T>
std::vector<T> rounded(const Floats& x) {
  std::vector<T> elements(x.size());
  std::ranges::transform(x, elements.begin(), [](float y) { return from_float<T>(y); });
  return elements;
}

template <class T>
void run_stage(Stage stage, Dtype dtype, const std::vector<T>& elements, uint32_t block,
               LearningState& state) {
  learn({stage, dtype, 4, Rounding::kNearest, block, elements.size(), elements.data(), &state,
         nullptr});
}

// The range of a block that has levels, or 0.
float range_of(const Floats& x, size_t first, size_t end) {
  float low = x[first], high = x[first];
  for (size_t i = first; i < end; ++i) {
    if (x[i] == 0 || !(std::fabs(x[i]) < std::ldexp(1.0f, 126))) return 0;
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  const float range = high - low;
  return range < std::ldexp(1.0f, -118) ? 0 : range;
}

float widest_of(const Floats& x, size_t block) {
  float widest = 0;
  for (size_t first = 0; first < x.size(); first += block)
    widest = std::max(widest, range_of(x, first, std::min(x.size(), first + block)));
  return widest;
}

std::vector<uint64_t> histogram_of(const Floats& x, size_t block, float widest) {
  std::vector<uint64_t> bins(1024);
  for (size_t first = 0; first < x.size(); first += block) {
    const size_t end = std::min(x.size(), first + block);
    const float range = range_of(x, first, end), part = range / widest;
    if (range == 0) continue;
    const float square = part * part;
    const float low = *std::min_element(x.begin() + first, x.begin() + end);
    for (size_t i = first; i < end; ++i) {
      const float from_low = x[i] - low, inverse = 256 / range;
      const float place = from_low * inverse;
      const size_t bin = std::min<size_t>(1023, static_cast<size_t>(std::floor(place * 4)));
      bins[bin] += std::max<uint64_t>(1, std::floor(square * 1048576 + 0.5f));
    }
  }
  return bins;
}

template <class T>
void check_stages(Dtype dtype, const Floats& numbers, uint32_t block) {
  const std::vector<T> elements = rounded<T>(numbers);
  Floats x(numbers.size());
  std::ranges::transform(elements, x.begin(), [](T element) { return to_float(element); });
  SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << x.size() << " by " << block);
  State state;
  run_stage(Stage::kWidest, dtype, elements, block, state);
  const float widest = widest_of(x, block);
  ASSERT_EQ(state.widest, float_bits(widest));
  ASSERT_EQ(std::ranges::count(state.bins, 0u), 1024);
  // Another rank's may be wider.
  for (const float all : {widest, 3 * widest}) {
    if (!std::isfinite(all)) continue;
    state.widest = float_bits(all);
    std::ranges::fill(state.bins, 7);
    run_stage(Stage::kHistogram, dtype, elements, block, state);
    std::vector<uint64_t> want = histogram_of(x, block, all);
    for (uint64_t& bin : want) bin += 7;
    ASSERT_TRUE(std::ranges::equal(state.bins, want));
  }
}

TEST(Learning, CountsWhereElementsLie) {
  Random random(1);
  for (int kin = 0; kin < kKins; ++kin)
    for (const size_t count : {0, 1, 2, 31, 997, 5000})
      for (const uint32_t block : {32, 128, 1024, 4096}) {
        const Floats x = numbers(static_cast<Kin>(kin), count, random);
        check_stages<float>(Dtype::kFloat32, x, block);
        check_stages<half_t>(Dtype::kFloat16, x, block);
        check_stages<bfloat_t>(Dtype::kBfloat16, x, block);
      }
}

TEST(Learning, BlocksThatAreNotFiniteHaveNoPart) {
  const Floats sound = gaussian(128, 2);
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    Floats x = sound;
    x.resize(4 * 128, 1.0f);  // a block of equal elements
    for (size_t i = 256; i < 384; ++i) x[i] = 1e30f * static_cast<float>(i);
    x[300] = bad;
    x[400] = std::numeric_limits<float>::max();
    x[401] = -x[400];
    State with, without;
    run_stage(Stage::kWidest, Dtype::kFloat32, x, 128, with);
    run_stage(Stage::kWidest, Dtype::kFloat32, sound, 128, without);
    EXPECT_NE(with.widest, 0u);
    EXPECT_EQ(with.widest, without.widest);
    run_stage(Stage::kHistogram, Dtype::kFloat32, x, 128, with);
    run_stage(Stage::kHistogram, Dtype::kFloat32, sound, 128, without);
    EXPECT_TRUE(std::ranges::equal(with.bins, without.bins));
    EXPECT_EQ(std::accumulate(with.bins, with.bins + kBins, uint64_t{0}), uint64_t{128} << 20);
  }
}

TEST(Learning, ElementsMayLieAnywhere) {
  const Floats x = gaussian(1000, 3);
  State aligned, odd;
  std::vector<char> bytes(x.size() * sizeof(float) + 1);
  std::memcpy(bytes.data() + 1, x.data(), x.size() * sizeof(float));
  for (const Stage stage : {Stage::kWidest, Stage::kHistogram}) {
    run_stage(stage, Dtype::kFloat32, x, 128, aligned);
    learn({stage, Dtype::kFloat32, 4, Rounding::kNearest, 128, x.size(), bytes.data() + 1, &odd,
           nullptr});
  }
  EXPECT_EQ(aligned.widest, odd.widest);
  EXPECT_TRUE(std::ranges::equal(aligned.bins, odd.bins));
}

// Histograms of several kinds, and what they cost with some levels.
using Histogram = std::vector<uint64_t>;

Histogram bell(double deviation, uint64_t total) {
  Histogram bins(1024);
  for (int i = 0; i < 1024; ++i) {
    const double x = (i - 511.5) / 1024 / deviation;
    bins[i] = static_cast<uint64_t>(std::exp(-x * x / 2) * static_cast<double>(total) / 1024);
  }
  return bins;
}

Histogram at_random(uint64_t seed, uint64_t most) {
  Random random(seed);
  Histogram bins(1024);
  for (uint64_t& bin : bins) bin = random.below(most);
  return bins;
}

std::vector<Histogram> histograms() {
  std::vector<Histogram> all = {bell(0.15, 1ull << 30), bell(0.04, 1ull << 52),
                                bell(0.12, 100'000),    Histogram(1024, 1),
                                at_random(1, 1000),     at_random(2, 1ull << 50)};
  Histogram skewed(1024);
  for (size_t i = 0; i < 1024; ++i) skewed[i] = uint64_t{1000000000} / (i + 1);
  all.push_back(skewed);
  return all;
}

// The integral of f over where a level's elements lie, bin by bin, by Gauss's rule of three points
// between `cuts`, which is exact for polynomials up to the fifth degree.
template <class Function>
long double integral(const Histogram& bins, double low, double high, const Function& f) {
  long double sum = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    const double a = std::max<double>(low, static_cast<double>(i) / 1024);
    const double b = std::min<double>(high, static_cast<double>(i + 1) / 1024);
    if (a >= b || bins[i] == 0) continue;
    const long double middle = 0.5L * (a + b), half = 0.5L * (b - a);
    const long double offset = half * std::sqrt(0.6L);
    const long double mean = (5 * f(middle - offset) + 8 * f(middle) + 5 * f(middle + offset)) / 18;
    sum += mean * (b - a) * 1024 * static_cast<long double>(bins[i]);
  }
  return sum;
}

using Levels = std::vector<double>;

long double nearest_cost(const Histogram& bins, const Levels& l) {
  long double cost = 0;
  for (size_t j = 0; j < l.size(); ++j) {
    const double low = j == 0 ? 0 : (l[j - 1] + l[j]) / 2;
    const double high = j + 1 == l.size() ? 1 : (l[j] + l[j + 1]) / 2;
    cost += integral(bins, low, high, [&](long double v) { return (v - l[j]) * (v - l[j]); });
  }
  return cost;
}

long double stochastic_cost(const Histogram& bins, const Levels& l) {
  long double cost = 0;
  for (size_t j = 0; j + 1 < l.size(); ++j)
    cost +=
        integral(bins, l[j], l[j + 1], [&](long double v) { return (v - l[j]) * (l[j + 1] - v); });
  return cost;
}

long double cost_of(const Histogram& bins, const Levels& l, Rounding rounding) {
  return rounding == Rounding::kNearest ? nearest_cost(bins, l) : stochastic_cost(bins, l);
}

Levels uniform(int bits) {
  Levels l(codebook_levels(bits));
  for (size_t j = 0; j < l.size(); ++j) l[j] = uniform_level(j, bits);
  return l;
}

Floats table_of(const Histogram& bins, int bits, Rounding rounding) {
  State state;
  std::ranges::copy(bins, state.bins);
  Floats table(codebook_floats(bits), -1.0f);
  learn({Stage::kFit, Dtype::kFloat32, static_cast<uint8_t>(bits), rounding, 128, 0, nullptr,
         &state, table.data()});
  return table;
}

Levels fitted(const Histogram& bins, int bits, Rounding rounding) {
  const Floats table = table_of(bins, bits, rounding);
  return {table.begin(), table.begin() + codebook_levels(bits)};
}

TEST(Learning, NoLevelIsBetterElsewhere) {
  for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic})
    for (const int bits : {2, 3, 4, 5}) {
      size_t which = 0;
      for (const Histogram& bins : histograms()) {
        SCOPED_TRACE(testing::Message() << bits << " bits, " << static_cast<int>(rounding)
                                        << ", histogram " << which++);
        const Levels l = fitted(bins, bits, rounding);
        ASSERT_TRUE(std::ranges::is_sorted(l));
        const long double cost = cost_of(bins, l, rounding);
        EXPECT_LE(cost, cost_of(bins, uniform(bits), rounding) * (1 + 1e-6));
        const bool ends = rounding != Rounding::kNearest;
        if (ends) {
          EXPECT_EQ(l.front(), 0);
          EXPECT_EQ(l.back(), 1);
        }
        for (size_t j = ends; j + ends < l.size(); ++j)
          for (const double part : {-0.3, 0.3}) {
            Levels moved = l;
            const double next =
                part < 0 ? (j == 0 ? 0 : l[j - 1]) : (j + 1 == l.size() ? 1 : l[j + 1]);
            moved[j] += std::abs(part) * (next - l[j]);
            EXPECT_GE(cost_of(bins, moved, rounding), cost * (1 - 1e-5)) << "level " << j;
          }
      }
    }
}

TEST(Learning, LevelsAreTheMeansOfTheirCells) {
  for (const int bits : {2, 3, 4})
    for (const Histogram& bins : histograms()) {
      const Levels l = fitted(bins, bits, Rounding::kNearest);
      for (size_t j = 0; j < l.size(); ++j) {
        const double low = j == 0 ? 0 : (l[j - 1] + l[j]) / 2;
        const double high = j + 1 == l.size() ? 1 : (l[j] + l[j + 1]) / 2;
        const long double weight = integral(bins, low, high, [](long double) { return 1; });
        const long double moment = integral(bins, low, high, [](long double v) { return v; });
        EXPECT_NEAR(l[j], static_cast<double>(moment / weight), 2e-4) << bits << " bits, " << j;
      }
    }
}

TEST(Learning, AllWidthsAscendAndAreComplete) {
  for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic})
    for (int bits = kMinBits; bits <= kMaxBits; ++bits)
      for (const Histogram& bins : histograms()) {
        const Floats table = table_of(bins, bits, rounding);
        const Levels l(table.begin(), table.begin() + codebook_levels(bits));
        EXPECT_TRUE(std::ranges::is_sorted(l));
        EXPECT_TRUE(l.front() >= 0 && l.back() <= 1);
        EXPECT_LE(cost_of(bins, l, rounding), cost_of(bins, uniform(bits), rounding) * 1.001);
        Floats want = table;
        for (size_t j = 0; j < l.size(); ++j) complete_codebook(want.data(), bits, j);
        EXPECT_EQ(table, want);
      }
}

TEST(Learning, NothingToLearnFromLeavesTheTable) {
  for (int bits = kMinBits; bits <= kMaxBits; ++bits)
    EXPECT_EQ(table_of(Histogram(1024), bits, Rounding::kNearest),
              Floats(codebook_floats(bits), -1.0f));
}

TEST(Learning, FewPlacesAreMetAndLevelsAreLeftForOthers) {
  Histogram ends(1024);
  ends[0] = ends[1023] = 1000;
  ends[400] = 10;
  for (const int bits : {2, 4, 8}) {
    const Levels l = fitted(ends, bits, Rounding::kNearest);
    for (const size_t bin : {0, 1023})
      EXPECT_TRUE(std::ranges::any_of(l, [&](double x) {
        return std::abs(x - (static_cast<double>(bin) + 0.5) / 1024) < 1.0 / 1024;
      }));
    EXPECT_TRUE(std::ranges::any_of(l, [](double x) { return x > 0.2 && x < 0.8; })) << bits;
  }
}

// A factor of a power of two on all bins changes nothing.
TEST(Learning, WeightsAreRelative) {
  Histogram bins = at_random(3, 1 << 20);
  const Floats table = table_of(bins, 4, Rounding::kNearest);
  for (uint64_t& bin : bins) bin <<= 33;
  EXPECT_EQ(table_of(bins, 4, Rounding::kNearest), table);
}

}  // namespace
}  // namespace terse::codec
