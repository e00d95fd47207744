#include "collective.h"

#include <gtest/gtest.h>

namespace terse::perf {
namespace {

TEST(BusFactor, IsThatOfNcclTests) {
  for (const int n : {1, 2, 4, 7}) {
    EXPECT_DOUBLE_EQ(kAllReduce.bus_factor(n), 2.0 * (n - 1) / n);
    EXPECT_DOUBLE_EQ(kAllGather.bus_factor(n), 1.0 * (n - 1) / n);
    EXPECT_DOUBLE_EQ(kReduceScatter.bus_factor(n), 1.0 * (n - 1) / n);
  }
}

TEST(Shape, OfAllReduce) {
  const Shape shape = kAllReduce.shape(1001, 4, 3);
  EXPECT_EQ(shape.send, 1001u);
  EXPECT_EQ(shape.receive, 1001u);
  EXPECT_EQ(shape.parameter, 1001u);
  EXPECT_EQ(shape.in_place_send, 0u);
  EXPECT_EQ(shape.in_place_receive, 0u);
}

TEST(Shape, OfAllGatherKeepsSharesAligned) {
  const Shape shape = kAllGather.shape(1001, 4, 3);  // 333 and a bit each
  EXPECT_EQ(shape.send, 332u);
  EXPECT_EQ(shape.receive, 996u);
  EXPECT_EQ(shape.parameter, 332u);
  EXPECT_EQ(shape.in_place_send, 332u);
  EXPECT_EQ(shape.in_place_receive, 0u);
}

TEST(Shape, OfReduceScatterMirrorsIt) {
  const Shape shape = kReduceScatter.shape(1001, 4, 3);
  EXPECT_EQ(shape.send, 996u);
  EXPECT_EQ(shape.receive, 332u);
  EXPECT_EQ(shape.parameter, 332u);
  EXPECT_EQ(shape.in_place_send, 0u);
  EXPECT_EQ(shape.in_place_receive, 332u);
}

TEST(Origin, SaysWhereOutputComesFrom) {
  const Shape gather = kAllGather.shape(12, 1, 3);
  const Origin second = kAllGather.origin(0, 5, gather);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.first, 1u);
  EXPECT_EQ(second.length, 3u);
  const Shape scatter = kReduceScatter.shape(12, 1, 3);
  const Origin reduced = kReduceScatter.origin(2, 1, scatter);
  EXPECT_EQ(reduced.rank, Origin::kReduced);
  EXPECT_EQ(reduced.first, 9u);
}

TEST(TotalOfInput, IsTheLargerBuffer) {
  EXPECT_EQ(kAllReduce.total_of_input(100, 4), 100u);
  EXPECT_EQ(kReduceScatter.total_of_input(100, 4), 100u);
  EXPECT_EQ(kAllGather.total_of_input(100, 4), 400u);
}

}  // namespace
}  // namespace terse::perf
