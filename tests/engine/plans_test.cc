// What the plans of a communicator's ranks have in common.
#include "engine/comm/plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "trials.h"

namespace terse::test {
namespace {

using plan::Collective;

// Nodes of 1 to 4 ranks.
plan::Topology some_nodes(int ranks, std::mt19937& random) {
  std::vector<uint64_t> hosts;
  for (uint64_t host = 0; hosts.size() < static_cast<size_t>(ranks); ++host)
    hosts.insert(hosts.end(), 1 + random() % 4, host);
  hosts.resize(ranks);
  return plan::topology_of(hosts);
}

// By which all ranks ask each other for memory at the same call, and have enough.
void expect_enough(const PlanKey& key, int ranks, const plan::Topology& nodes, plan::Grain grain) {
  size_t most = 0, said = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Plans plans(rank, ranks, grain);
    plans.learn(nodes);
    const PlanPointer plan = plans.of(key);
    most = std::max(most, plan->scratch_bytes);
    if (rank == 0) said = plan->most_scratch_bytes;
    ASSERT_EQ(plan->most_scratch_bytes, said) << plan::name(key.collective) << " of " << key.count
                                              << ", root " << key.root << ", rank " << rank;
  }
  ASSERT_EQ(most, said) << plan::name(key.collective) << " of " << key.count << ", root "
                        << key.root << " of " << ranks << " on " << nodes.nodes();
}

TEST(Plans, OfACallWithARootNeedNoMoreOnAnyRankThanAllSay) {
  std::mt19937 random(7);
  for (int trial = 0; trial < trials(400, 60); ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 9);
    constexpr Collective kRooted[] = {Collective::kBroadcast, Collective::kReduce,
                                      Collective::kGather, Collective::kScatter};
    PlanKey key{};
    key.collective = kRooted[random() % std::size(kRooted)];
    key.root = static_cast<int>(random() % ranks);
    key.count = 1 + random() % (random() % 2 == 0 ? 5000 : 1'000'000);
    key.dtype = random() % 2 == 0 ? codec::Dtype::kFloat32 : codec::Dtype::kBfloat16;
    key.verified = random() % 2 == 0;
    const plan::Topology nodes = some_nodes(ranks, random);
    expect_enough(key, ranks, nodes, plan::kHostGrain);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Who sends one message keeps more chunks under way than the root, who takes one of each.
TEST(Plans, OfADirectCallNeedNoMoreOnAnyRankThanAllSay) {
  for (const int ranks : {4, 5, 6, 7})
    for (size_t chunks = 1; chunks < 12; ++chunks) {
      PlanKey key{};
      key.collective = Collective::kReduce;
      key.algorithm = *plan::find_algo("direct");
      key.count = chunks * plan::kGpuGrain.chunk_bytes / 4;
      expect_enough(key, ranks, plan::even_topology(ranks, 1), plan::kGpuGrain);
    }
}

// What stays exact goes over the link, too: a call that would send more than NCCL is known by it.
TEST(Plans, TheLinkHasWhatNcclCarriesBesideThem) {
  Plans plans(0, 8, plan::kHostGrain);
  plans.learn(plan::topology_of(std::vector<uint64_t>{1, 1, 1, 2, 2, 2, 2, 2}));
  PlanKey key{};
  key.collective = Collective::kAllReduce;
  key.count = 100'000;
  const plan::Link without = plans.of(key)->link;
  EXPECT_LT(without.compressed.off_node, without.native.off_node);
  plans.exclude(key.count, {{0, 90'000}});
  const plan::Link with = plans.of(key)->link;
  EXPECT_EQ(with.native, without.native);
  EXPECT_EQ(with.compressed.off_node,
            without.compressed.off_node + without.native.off_node * 9 / 10);
}

}  // namespace
}  // namespace terse::test
