// Broadcast to nodes in groups: what each rank sends, for any root.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "call_buffers.h"
#include "plan/algorithms.h"
#include "plan/grid.h"
#include "simulator.h"

namespace terse::plan {
namespace {

Shape shape_on(const Topology& topology, size_t count, ChunkPolicy chunks = exact_chunks(1 << 30)) {
  return {.count = count,
          .ranks = static_cast<int>(topology.node.size()),
          .chunk_policy = chunks,
          .packing = block_packing(32),
          .topology = topology};
}

// Bytes that each node sends to others.
std::vector<size_t> sent_by_nodes(Shape shape, Plan (*build)(const Shape&)) {
  std::vector<size_t> sent(shape.topology.nodes());
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    sent[shape.topology.node[shape.rank]] +=
        traffic_to(build(shape).wire_to, shape.rank, shape.topology).off_node;
  return sent;
}

// 4 nodes of a rank, 2 by 2: the root sends all to the next node of its group, which sends it to
// the other group, where it goes on to the last one.
TEST(BroadcastInLevels, OfFourRanksGoesFromNodeToNode) {
  Shape shape = shape_on(even_topology(4, 4), 64);
  const size_t all = shape.packing.bytes(64);
  const auto sends = [&](int rank) {
    shape.rank = rank;
    return multilevel_broadcast(shape).wire_to;
  };
  EXPECT_EQ(sends(0), (std::vector<size_t>{0, all}));
  EXPECT_EQ(sends(1), (std::vector<size_t>{0, 0, 0, all}));
  EXPECT_EQ(sends(2), std::vector<size_t>{});
  EXPECT_EQ(sends(3), (std::vector<size_t>{0, 0, all}));
}

// Whatever the root: its bytes on all ranks, in one chunk or several, also of few elements.
TEST(BroadcastInLevels, GivesTheRootsBytesToAll) {
  std::mt19937 random(3);
  const Topology kTopologies[] = {even_topology(8, 4), even_topology(8, 8), even_topology(36, 12),
                                  even_topology(16, 8, 2), even_topology(16, 8, 4)};
  for (const Topology& t : kTopologies)
    for (const size_t count : {size_t{1}, size_t{33}, size_t{5000}})
      for (const ChunkPolicy& chunks : {exact_chunks(1 << 30), exact_chunks(4096)}) {
        Shape shape = shape_on(t, count, chunks);
        for (shape.root = 0; shape.root < shape.ranks; ++shape.root) {
          std::vector<Plan> plans;
          for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
            plans.push_back(multilevel_broadcast(shape));
            ASSERT_EQ(validate(plans.back(), shape), "") << print(plans.back());
          }
          const CallBuffers b(Collective::kBroadcast, shape, false, random);
          ASSERT_EQ(simulate(plans, b.send, b.recv, random), "") << print(plans[0]);
          for (int r = 0; r < shape.ranks; ++r)
            ASSERT_TRUE(std::equal(b.recv[r], b.recv[r] + count, b.input[shape.root].begin()))
                << "rank " << r << " root " << shape.root << "\n"
                << print(plans[r]);
        }
      }
}

// 64 nodes of 8 ranks, 8 by 8: 7 x 7 shards for each place. A node that shares no digit with the
// root's sends its shard to 6 other groups, and all that it has then to 7 nodes.
TEST(BroadcastInLevels, SendsAboutOneMessageOutOfANode) {
  Shape shape = shape_on(even_topology(512, 64), size_t{49} * 8 * 1024);
  shape.root = 77;
  const size_t message = 8 * 49 * shape.packing.bytes(1024);
  const std::vector<size_t> sent = sent_by_nodes(shape, multilevel_broadcast);
  EXPECT_EQ(sent[77 / 8], message);
  EXPECT_EQ(*std::ranges::max_element(sent), message + 6 * message / 49);
}

// Each pod receives the message once.
TEST(BroadcastInLevels, SendsEachPodTheMessageOnce) {
  Shape shape = shape_on(even_topology(64, 32, 4), size_t{21} * 2 * 1024);
  shape.root = 21;
  std::vector<size_t> received(4);
  const auto pod = [](size_t rank) { return rank / 16; };
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    const std::vector<size_t> to = multilevel_broadcast(shape).wire_to;
    for (size_t peer = 0; peer < to.size(); ++peer)
      if (pod(peer) != pod(shape.rank)) received[pod(peer)] += to[peer];
  }
  const size_t message = 42 * shape.packing.bytes(1024);
  EXPECT_EQ(received, (std::vector<size_t>{message, 0, message, message}));
}

// Of 512 nodes of 8 ranks.
TEST(BroadcastInLevels, HasFewPeers) {
  Shape shape = shape_on(even_topology(4096, 512), size_t{1} << 24);
  shape.root = 1234;
  for (shape.rank = 0; shape.rank < shape.ranks; shape.rank += 61) {
    std::set<int> peers;
    for (const Step& step : multilevel_broadcast(shape).steps)
      for (const Transfer& t : step.transfers) peers.insert(t.peer);
    EXPECT_LE(peers.size(), 7u + 3 * 7);
  }
}

}  // namespace
}  // namespace terse::plan
