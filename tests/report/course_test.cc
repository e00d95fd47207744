#include <gtest/gtest.h>

#include <algorithm>

#include "base/downsampled_series.h"
#include "base/sizes.h"

namespace terse {
namespace {

DownsampledSeries of(uint64_t numbers, uint64_t every = 1) {
  DownsampledSeries c;
  for (uint64_t k = 0; k < numbers; k += every) c.add(k, static_cast<double>(k));
  return c;
}

// Numbers 0, 1, 2 and so on, each at its own place.
void check(const DownsampledSeries& c, uint64_t numbers, uint64_t each) {
  EXPECT_EQ(c.each, each);
  ASSERT_EQ(c.points.size(), (numbers + each - 1) / each);
  for (size_t i = 0; i < c.points.size(); ++i) {
    const uint64_t first = i * each, end = std::min(numbers, first + each);
    EXPECT_EQ(c.points[i].at, first);
    EXPECT_EQ(c.points[i].count, end - first);
    EXPECT_EQ(c.points[i].greatest, static_cast<double>(end - 1));
    EXPECT_DOUBLE_EQ(c.points[i].mean(), static_cast<double>(first + end - 1) / 2);
  }
}

TEST(DownsampledSeries, IsOfHalfTheResolutionWhereItIsFull) {
  check(of(1), 1, 1);
  check(of(64), 64, 1);
  check(of(65), 65, 2);
  check(of(128), 128, 2);
  check(of(129), 129, 4);
  check(of(100'000), 100'000, 2048);
}

TEST(DownsampledSeries, TwoAreOneByTheirPlaces) {
  DownsampledSeries all = of(64);
  all.merge(of(64));
  ASSERT_EQ(all.points.size(), 64u);
  EXPECT_EQ(all.points[5].count, 2u);
  EXPECT_EQ(all.points[5].mean(), 5.0);
  // One that has seen more is coarser.
  DownsampledSeries longer = of(200);
  longer.merge(of(64));
  EXPECT_EQ(longer.each, 4u);
  EXPECT_EQ(longer.points[0].count, 8u);
  EXPECT_EQ(longer.points[49].count, 4u);
  DownsampledSeries shorter = of(64);
  shorter.merge(of(200));
  EXPECT_EQ(shorter, longer);
}

TEST(DownsampledSeries, OfOtherPlacesAreStillFew) {
  DownsampledSeries even = of(128, 2), odd;
  for (uint64_t k = 1; k < 128; k += 2) odd.add(k, 1);
  even.merge(odd);
  EXPECT_LE(even.points.size(), DownsampledSeries::kMaxPoints);
  uint64_t count = 0;
  for (size_t i = 0; i < even.points.size(); ++i) {
    count += even.points[i].count;
    if (i > 0) {
      EXPECT_LT(even.points[i - 1].at, even.points[i].at);
    }
  }
  EXPECT_EQ(count, 128u);
}

TEST(Sizes, AreCountedByPowersOfTwo) {
  Sizes sizes;
  for (const uint64_t bytes : {0ull, 1ull, 2ull, 3ull, 4ull, 65535ull, 65536ull, ~0ull})
    sizes.add(bytes);
  EXPECT_EQ(sizes.classes[0], (Sizes::Class{2, 1}));
  EXPECT_EQ(sizes.classes[1], (Sizes::Class{2, 5}));
  EXPECT_EQ(sizes.classes[2], (Sizes::Class{1, 4}));
  EXPECT_EQ(sizes.classes[15], (Sizes::Class{1, 65535}));
  EXPECT_EQ(sizes.classes[16], (Sizes::Class{1, 65536}));
  EXPECT_EQ(sizes.classes[63], (Sizes::Class{1, ~0ull}));
  Sizes twice = sizes;
  twice.add(sizes);
  EXPECT_EQ(twice.classes[1], (Sizes::Class{4, 10}));
}

}  // namespace
}  // namespace terse
