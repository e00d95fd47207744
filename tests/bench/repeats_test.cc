// How often calls are timed, whatever they take.
#include "repeats.h"

#include <gtest/gtest.h>

namespace terse::perf {
namespace {

TEST(Repeats, AreWhatTheSecondsHaveRoomFor) {
  EXPECT_EQ(calls_within(1, 0.3), 3);
  EXPECT_EQ(calls_within(1, 2), 0);
  EXPECT_EQ(calls_within(1, 0.001), kMaxCalls);
  EXPECT_EQ(rounds_within(1, 0.3), 2);
  EXPECT_EQ(rounds_within(1, 2), 1);
  EXPECT_EQ(rounds_within(1, 0.01), kRounds);
}

// A day has room for more calls of a microsecond than an int counts.
TEST(Repeats, AreNoMoreThanTheMost) {
  for (const double one : {1e-6, 1e-12, 1e-300, 0.0}) {
    EXPECT_EQ(calls_within(86'400, one), kMaxCalls) << one;
    EXPECT_EQ(rounds_within(86'400, one), kRounds) << one;
  }
}

}  // namespace
}  // namespace terse::perf
