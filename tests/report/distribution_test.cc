#include "base/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace terse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHalfClass = 0.0109;

Distribution of(const std::vector<double>& numbers) {
  Distribution d;
  for (const double x : numbers) d.add(x);
  return d;
}

// By the nearest rank.
double percentile(std::vector<double> numbers, unsigned percent) {
  std::ranges::sort(numbers);
  const size_t rank = std::max<size_t>((numbers.size() * percent + 99) / 100, 1);
  return numbers[rank - 1];
}

TEST(Distribution, PercentilesAreKnownToHalfAClassAndTheGreatestExactly) {
  std::mt19937_64 random(5);
  for (const size_t count : {1u, 2u, 3u, 10u, 99u, 100u, 101u, 5000u}) {
    std::vector<double> numbers(count);
    std::lognormal_distribution<double> draw(-5, 3);
    for (double& x : numbers) x = draw(random);
    const Distribution d = of(numbers);
    EXPECT_EQ(d.count(), count);
    EXPECT_EQ(d.greatest(), percentile(numbers, 100));
    for (const unsigned percent : {0u, 1u, 50u, 90u, 99u})
      EXPECT_NEAR(d.percentile(percent) / percentile(numbers, percent), 1, kHalfClass)
          << percent << " % of " << count;
  }
}

TEST(Distribution, OneNumberIsExact) {
  for (const double x : {0.0, 1e-300, 0.0065, 1.0, 3e200, kInfinity})
    for (const unsigned percent : {1u, 50u, 99u, 100u}) EXPECT_EQ(of({x}).percentile(percent), x);
}

TEST(Distribution, OfNothingAllIsZero) {
  EXPECT_EQ(Distribution{}.count(), 0u);
  EXPECT_EQ(Distribution{}.median(), 0);
  EXPECT_EQ(Distribution{}.greatest(), 0);
}

TEST(Distribution, ZerosComeFirstAndInfiniteOnesLast) {
  const Distribution d = of({0.5, 0, kInfinity, 0, 0.25});
  EXPECT_EQ(d.percentile(40), 0);
  EXPECT_NEAR(d.percentile(60), 0.25, 0.25 * 2 * kHalfClass);
  EXPECT_EQ(d.percentile(80), 0.5);
  EXPECT_EQ(d.percentile(81), kInfinity);
  EXPECT_EQ(d.greatest(), kInfinity);
}

TEST(Distribution, PartsAddUpToTheWhole) {
  std::mt19937_64 random(6);
  std::lognormal_distribution<double> draw(-5, 3);
  std::vector<double> numbers{0, kInfinity, 1e-300, 1e300};
  for (int i = 0; i < 1000; ++i) numbers.push_back(draw(random));
  std::ranges::shuffle(numbers, random);
  Distribution sum;
  for (size_t first = 0; first < numbers.size(); first += 251)
    sum.add(of({numbers.begin() + static_cast<ptrdiff_t>(first),
                numbers.begin() + static_cast<ptrdiff_t>(std::min(first + 251, numbers.size()))}));
  EXPECT_EQ(sum, of(numbers));
  Distribution nothing_more = sum;
  nothing_more.add(Distribution{});
  EXPECT_EQ(nothing_more, sum);
}

TEST(Distribution, ItsMemoryIsBounded) {
  Distribution d;
  for (double x = 1e-300; x < 1e300; x *= 1.001) d.add(x);
  EXPECT_EQ(d.classes.size(), 2u * (Distribution::kLastClass + 1));
}

}  // namespace
}  // namespace terse
