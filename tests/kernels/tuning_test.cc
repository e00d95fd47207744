// Which row of a table of tunings counts.
#include "kernels/device/tuning.h"

#include <gtest/gtest.h>

namespace terse::kernels {
namespace {

constexpr Tuning kTable[] = {{75, 0, 1}, {75, 4, 2}, {80, 0, 3}, {90, 0, 4}, {90, 8, 5}};

constexpr int found(int compute_capability, int bits) {
  return tuning_of(kTable, compute_capability, bits).thread_blocks_per_sm;
}

TEST(Tuning, IsTheLastRowThatFits) {
  EXPECT_EQ(found(75, 3), 1);
  EXPECT_EQ(found(75, 4), 2);
  EXPECT_EQ(found(79, 4), 2);
  EXPECT_EQ(found(80, 4), 3);
  EXPECT_EQ(found(89, 8), 3);
  EXPECT_EQ(found(90, 4), 4);
  EXPECT_EQ(found(90, 8), 5);
  EXPECT_EQ(found(120, 8), 5);
}

TEST(Tuning, IsTheFirstRowWhereNoneFits) { EXPECT_EQ(found(70, 4), 1); }

TEST(Tuning, IsThereForEveryKernel) {
  for (const int capability : {75, 80, 86, 89, 90, 100, 120})
    for (int bits = codec::kMinBits; bits <= codec::kMaxBits; ++bits) {
      const Tuning& t = tuning_for(capability, bits);
      EXPECT_LE(t.compute_capability, capability);
      EXPECT_TRUE(t.bits == 0 || t.bits == bits);
      // Fewer would leave room on the machine unused.
      EXPECT_GE(t.thread_blocks_per_sm, kMinBlocksPerSm);
    }
}

}  // namespace
}  // namespace terse::kernels
