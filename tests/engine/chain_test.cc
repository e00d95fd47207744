// On a GPU steps that have nothing to overlap with go on one queue: a hop from the caller's stream,
// and one back.
#include <gtest/gtest.h>

#include "idle_caller.h"
#include "plan/order.h"

namespace terse::test {
namespace {

using plan::Collective;

class Chain : public testing::Test, protected IdleCaller {
 protected:
  Chain() { c.backend.gpu = true; }

  size_t hops(Collective collective, size_t count) {
    compress(collective, count);  // what a first call alone does
    const size_t before = c.backend.hops;
    compress(collective, count);
    return c.backend.hops - before;
  }
};

// The lane waits for the caller and the call before, and the caller for the lane.
TEST_F(Chain, ACallOfOneChunkHasNoHopOfItsOwn) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter})
    EXPECT_EQ(hops(collective, 1'000), 3u) << plan::name(collective);
}

// Where the next lane is a thread that waits already.
TEST_F(Chain, OnAHostEachPhaseHasALane) {
  c.backend.gpu = false;
  EXPECT_GT(hops(Collective::kAllReduce, 1'000), 6u);
}

TEST_F(Chain, ChunksOverlapOnLanesOfTheirOwn) {
  EXPECT_GT(hops(Collective::kAllReduce, 20'000'000), 12u);
}

TEST(ChainPlan, IsOneInWhichEachStepFollowsTheOneBefore) {
  const auto step = [](plan::Lane lane, std::vector<size_t> after) {
    return plan::Step{.name = "step", .lane = lane, .after = std::move(after)};
  };
  using enum plan::Lane;
  EXPECT_TRUE(plan::is_chain({}));
  EXPECT_TRUE(plan::is_chain({step(kEncode, {}), step(kEncode, {})})) << "of one queue";
  EXPECT_TRUE(plan::is_chain({step(kEncode, {}), step(kCommunicate, {0}), step(kDecode, {1})}));
  plan::Step header = step(kDecode, {});
  header.header = plan::Header{};
  EXPECT_TRUE(plan::is_chain({header, step(kEncode, {}), step(kCommunicate, {0, 1})}));
  EXPECT_FALSE(plan::is_chain({step(kEncode, {}), step(kDecode, {}), step(kDecode, {0})}));
}

}  // namespace
}  // namespace terse::test
