#include "engine/observe/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace terse {
namespace {

TEST(Choice, OneIsAllAndNoneIsNone) {
  for (uint64_t k = 0; k < 1000; ++k) {
    EXPECT_TRUE(is_chosen(1, k % 7, k));
    EXPECT_FALSE(is_chosen(0, k % 7, k));
  }
}

TEST(Choice, OneOfEveryN) {
  for (const uint64_t n : {2u, 3u, 10u, 20u, 64u})
    for (uint64_t first = 0; first < 200 * n; first += n) {
      int chosen = 0;
      for (uint64_t k = first; k < first + n; ++k) chosen += is_chosen(n, 3, k);
      EXPECT_EQ(chosen, 1) << n << " from " << first;
    }
}

// A training's steps of as many calls each, of which every one has its turn as often.
TEST(Choice, NoCallOfALoopIsLeftOut) {
  for (const uint64_t n : {2u, 5u, 10u, 16u, 20u, 100u})
    for (const uint64_t step : {2u, 4u, 5u, 10u, 20u})
      for (const uint64_t communicator : {0u, 1u, 2u}) {
        std::vector<int> chosen(step);
        const uint64_t wanted = 400 * step;  // of all calls
        for (uint64_t k = 0; k < n * wanted; ++k) chosen[k % step] += is_chosen(n, communicator, k);
        // 400 times on average, with five deviations of the binomial distribution at most.
        for (const int times : chosen)
          EXPECT_NEAR(times, 400, 5 * std::sqrt(400.0)) << n << " of steps of " << step;
      }
}

TEST(Choice, CommunicatorsDiffer) {
  int alike = 0;
  for (uint64_t k = 0; k < 10'000; ++k) alike += is_chosen(10, 0, k) && is_chosen(10, 1, k);
  EXPECT_NEAR(alike, 100, 50);
}

}  // namespace
}  // namespace terse
