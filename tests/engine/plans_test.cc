// What the plans of a communicator's ranks have in common.
#include "engine/comm/plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
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
void expect_enough(const PlanKey& key, int ranks, const plan::Topology& nodes,
                   plan::ChunkPolicy chunk_policy) {
  size_t most = 0, said = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Plans plans(rank, ranks, chunk_policy);
    plans.learn(nodes);
    const PlanPointer plan = plans.of(key);
    most = std::max(most, plan->scratch_bytes);
    if (rank == 0) said = plan->max_scratch_bytes;
    ASSERT_EQ(plan->max_scratch_bytes, said) << plan::name(key.collective) << " of " << key.count
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
    expect_enough(key, ranks, nodes, plan::kHostChunks);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Of others all have the same, also those with nothing to pack, as on the last ranks of short
// messages.
TEST(Plans, OfACallOfAllRanksTakeAsMuchOnEach) {
  std::mt19937 random(11);
  constexpr const char* kSchemes[] = {"int8:intra=off,block=4096,round=stochastic",
                                      "int4:block=2048,round=stochastic",
                                      "exp8",
                                      "linear8",
                                      "int4:round=stochastic,second=int8,intra=int8",
                                      "int4:round=stochastic,hadamard=32,intra=int8"};
  for (int trial = 0; trial < trials(600, 100); ++trial) {
    const int nodes = 1 + static_cast<int>(random() % 4),
              of_node = 1 + static_cast<int>(random() % 6);
    const int ranks = nodes * of_node;
    if (ranks < 2) continue;
    const auto scheme = on_ranks(parse_scheme(kSchemes[random() % std::size(kSchemes)]), ranks);
    PlanKey key{};
    constexpr Collective kOfAll[] = {Collective::kAllReduce, Collective::kReduceScatter};
    key.collective = kOfAll[random() % std::size(kOfAll)];
    key.forms = scheme->forms();
    key.count = 1 + random() % (random() % 2 == 0 ? 50'000 : 500'000);
    std::vector<uint64_t> hosts;  // in blocks, or dealt
    const bool dealt = random() % 2 == 0;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(dealt ? rank % nodes : rank / of_node);
    std::optional<size_t> said;
    for (int rank = 0; rank < ranks; ++rank) {
      Plans plans(rank, ranks, plan::kHostChunks);
      plans.learn(plan::topology_of(hosts));
      const size_t scratch = plans.of(key)->scratch_bytes;
      ASSERT_EQ(scratch, said.value_or(scratch))
          << plan::name(key.collective) << " of " << key.count << ", rank " << rank << " of "
          << ranks;
      said = scratch;
    }
  }
}

// Who sends one message keeps more chunks under way than the root, who takes one of each.
TEST(Plans, OfADirectCallNeedNoMoreOnAnyRankThanAllSay) {
  for (const int ranks : {4, 5, 6, 7})
    for (size_t chunks = 1; chunks < 12; ++chunks) {
      PlanKey key{};
      key.collective = Collective::kReduce;
      key.algorithm = *plan::find_algo("direct");
      key.count = chunks * plan::kGpuChunks.chunk_bytes / 4;
      expect_enough(key, ranks, plan::even_topology(ranks, 1), plan::kGpuChunks);
    }
}

// Messages of as many different sizes, there and back.
BatchKey some_batch(size_t messages, std::mt19937& random) {
  BatchKey key;
  for (size_t i = 0; i < messages; ++i)
    key.push_back(
        {i % 2 == 0, static_cast<int>(1 + i % 3), 1 + random() % 20'000, 4, codec::Spec{}});
  return key;
}

// As where tokens go to experts: no batch is like another.
TEST(Plans, TakeNoMoreMemoryThanTheyMay) {
  std::mt19937 random(5);
  constexpr size_t kMax = 300'000;
  Plans plans(0, 4, plan::exact_chunks(4000), kMax);
  size_t all = 0;
  for (int i = 0; i < 100; ++i) {
    all += plan::memory_bytes(*plans.of(some_batch(1 + random() % 40, random)));
    ASSERT_LE(plans.bytes(), kMax);
  }
  EXPECT_GT(all, 5 * kMax);
  EXPECT_GT(plans.bytes(), kMax / 4);
  plans.learn(plan::even_topology(4, 1));
  EXPECT_GT(plans.bytes(), kMax / 4) << "batches do not go by the nodes";
}

TEST(Plans, ThatWereUsedLongestAgoGoFirst) {
  std::mt19937 random(5);
  Plans plans(0, 4, plan::exact_chunks(4000), 300'000);
  const BatchKey again = some_batch(10, random), once = some_batch(10, random);
  const PlanPointer used_again = plans.of(again), used_once = plans.of(once);
  for (int i = 0; i < 100; ++i) {
    plans.of(some_batch(10, random));
    ASSERT_EQ(plans.of(again), used_again);
  }
  const PlanPointer anew = plans.of(once);
  EXPECT_NE(anew, used_once);
  EXPECT_EQ(plan::print(*anew), plan::print(*used_once)) << "and it is made as it was";
}

TEST(Plans, OneThatIsLargerThanAllMayBeIsThereAlone) {
  Plans plans(0, 4, plan::exact_chunks(100'000), 20'000);
  PlanKey key{};
  key.collective = Collective::kAllReduce;
  key.count = 100;
  const PlanPointer small = plans.of(key);
  EXPECT_EQ(plans.of(key), small);
  key.count = 10'000'000;
  const PlanPointer large = plans.of(key);
  ASSERT_GT(plan::memory_bytes(*large), 20'000u);
  EXPECT_EQ(plans.of(key), large);
  key.count = 100;
  EXPECT_NE(plans.of(key), small);
  EXPECT_LE(plans.bytes(), 20'000u);
  EXPECT_FALSE(large->steps.empty()) << "who runs it holds it";
}

// What stays exact goes over the link, too: a call that would send more than NCCL is known by it.
TEST(Plans, TheLinkHasWhatNcclCarriesBesideThem) {
  Plans plans(0, 8, plan::kHostChunks);
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
