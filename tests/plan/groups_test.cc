// Nodes in groups and pods: who talks to whom, how much there is to do, and which groups there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "plan/algorithms.h"
#include "plan/grid.h"
#include "simulator.h"

namespace terse::plan {
namespace {

// 16 nodes of 2 ranks in groups of 4: 1 + 3 + 3 peers, where two levels have 1 + 15; and beyond its
// group a rank sends a quarter of what it has sent there.
TEST(Groups, OfNodesHaveFewPeers) {
  constexpr size_t kCount = 32 * 1024;
  Shape shape{.count = kCount,
              .ranks = 32,
              .rank = 5,
              .chunk_policy = exact_chunks(1 << 30),
              .packing = block_packing(32),
              .topology = even_topology(32, 16)};
  const auto peers = [](const Plan& plan) {
    return std::ranges::count_if(plan.wire_to, [](size_t bytes) { return bytes != 0; });
  };
  EXPECT_EQ(peers(hierarchical_all_reduce(shape)), 16);
  const Plan plan = multilevel_all_reduce(shape);
  EXPECT_EQ(peers(plan), 7) << print(plan);
  const size_t shard = shape.packing.bytes(kCount / 32);
  EXPECT_EQ(plan.wire_to[4], 2 * 16 * shard) << "the neighbour: a place's shards, both ways";
  EXPECT_EQ(plan.wire_to[7], 2 * 4 * shard) << "a node of the group";
  EXPECT_EQ(plan.wire_to[5 + 8], 2 * shard) << "a node of another group";
  EXPECT_EQ(traffic_to(plan.wire_to, 5, shape.topology).off_node, 2 * 15 * shard);
}

// However many ranks there are: one body for each neighbour, level and place.
TEST(Groups, OfNodesHaveFewComputes) {
  for (const int nodes : {16, 256}) {
    Shape shape{.count = size_t{1} << 20,
                .ranks = 2 * nodes,
                .chunk_policy = exact_chunks(1 << 30),
                .packing = block_packing(32),
                .topology = even_topology(2 * nodes, nodes),
                .outer = {Format::kOuterPacked, block_packing(32, 16)}};
    const Plan plan = multilevel_all_reduce(shape);
    EXPECT_EQ(validate(plan, shape), "");
    size_t computes = 0;
    for (const Step& step : plan.steps) computes += step.compute.size();
    EXPECT_EQ(computes, 1u + 3 + 2) << print(plan);
  }
}

TEST(Groups, AreOfNodesWhoseNumberHasDivisors) {
  EXPECT_EQ(radices_of(2), (std::vector<size_t>{2}));
  EXPECT_EQ(radices_of(7), (std::vector<size_t>{7}));
  EXPECT_EQ(radices_of(4), (std::vector<size_t>{2, 2}));
  EXPECT_EQ(radices_of(6), (std::vector<size_t>{3, 2}));
  EXPECT_EQ(radices_of(512), (std::vector<size_t>{8, 8, 8}));
  EXPECT_EQ(radices_of(128), (std::vector<size_t>{16, 8}));
  EXPECT_EQ(radices_of(1018), (std::vector<size_t>{509, 2}));
}

// Nodes 0 and 2 are in one pod, 1 and 3 in the other: what a rank has for both nodes of the other
// pod it sends to one of them.
TEST(Groups, ArePodsWhereNodesNameThem) {
  Topology t = topology_of(std::vector<uint64_t>{0, 0, 1, 1, 2, 2, 3, 3});
  ASSERT_EQ(put_into_pods(std::vector<uint64_t>{7, 7, 9, 9, 7, 7, 9, 9}, &t), "");
  EXPECT_EQ(t.pod_nodes, 2);
  EXPECT_EQ(t.order, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(radices_of(t), (std::vector<size_t>{2, 2}));
  Shape shape{.count = 8 * 1024,
              .ranks = 8,
              .chunk_policy = exact_chunks(1 << 30),
              .packing = block_packing(32),
              .topology = t};
  const size_t shard = shape.packing.bytes(1024);
  const Plan plan = multilevel_all_reduce(shape);
  EXPECT_EQ(plan.wire_to[4], 2 * 2 * shard) << "in the pod";
  EXPECT_EQ(plan.wire_to[2], 2 * shard) << "in the other one";
  EXPECT_EQ(plan.wire_to.size(), 5u);
  EXPECT_EQ(select(Collective::kAllReduce, shape, Algo{}).reason,
            "4 nodes in pods by 2 x 2: fewer peers");
}

TEST(Groups, OfPodsAreThoseOfAPodAndThoseOfAll) {
  EXPECT_EQ(radices_of(even_topology(256, 128, 2)), (std::vector<size_t>{8, 8, 2}));
  EXPECT_EQ(radices_of(even_topology(14, 14, 2)), (std::vector<size_t>{7, 2}));
}

TEST(Groups, AreNotOfPodsThatDoNotFit) {
  const auto why = [](const std::vector<uint64_t>& pods) {
    Topology t = even_topology(8, 4);
    const std::string refused = put_into_pods(pods, &t);
    EXPECT_EQ(t.pod_nodes, 0);
    EXPECT_TRUE(t.order.empty());
    return refused;
  };
  EXPECT_EQ(why({0, 0, 0, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(why({1, 1, 1, 1, 2, 2, 2, 0}), "rank 7 names no pod");
  EXPECT_EQ(why({1, 1, 1, 2, 2, 2, 2, 2}), "rank 3 names another pod than the ranks of its node");
  EXPECT_EQ(why({1, 1, 1, 1, 1, 1, 2, 2}), "one pod has 3 and another one 1 nodes");
  EXPECT_EQ(why({1, 1, 2, 2, 3, 3, 4, 4}), "each pod is one node");
  EXPECT_EQ(why({5, 5, 5, 5, 5, 5, 5, 5}), "all nodes are in one pod");
}

// What a rank sends another one is what that one expects, in the same order and of the same sizes.
TEST(Groups, EveryMessageIsReceived) {
  for (const size_t count : {size_t{1} << 20, size_t{1000}}) {
    std::map<std::pair<int, int>, std::vector<std::pair<size_t, size_t>>> sent, received;
    Shape shape{.count = count,
                .ranks = 1024,
                .chunk_policy = exact_chunks(1 << 30),
                .packing = block_packing(32),
                .topology = even_topology(1024, 128),
                .outer = {Format::kOuterPacked, block_packing(32, 16)}};
    for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
      size_t exchange = 0;
      for (const Step& step : multilevel_all_reduce(shape).steps) {
        for (const Transfer& t : step.transfers)
          (t.send ? sent[{shape.rank, t.peer}] : received[{t.peer, shape.rank}])
              .push_back({exchange, t.bytes});
        exchange += step.lane == Lane::kCommunicate;
      }
    }
    EXPECT_EQ(sent, received);
  }
}

}  // namespace
}  // namespace terse::plan
