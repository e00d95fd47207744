// What leaves a node: of plans by their transfers, of NCCL's calls by a walk along its rings.
#include "plan/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "grids.h"
#include "plan/algorithms.h"
#include "plan/link.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

using Hosts = std::vector<uint64_t>;

const std::vector<Hosts> kLayouts = {{1, 2},
                                     {1, 1, 2, 2},
                                     {5, 3, 5, 3},
                                     {1, 2, 2, 2, 2},
                                     {9, 8, 7, 9, 7, 7, 8},
                                     {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3},
                                     {1, 2, 3, 4, 1, 2, 3, 4}};

TEST(Topology, NodesAreNumberedByTheirFirstRanks) {
  const Topology t = topology_of(Hosts{9, 8, 7, 9, 7, 7});
  EXPECT_EQ(t.nodes(), 3);
  EXPECT_EQ(t.node, (std::vector<int>{0, 1, 2, 0, 2, 2}));
  EXPECT_EQ(t.place, (std::vector<int>{0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(t.size, (std::vector<int>{2, 1, 3}));
  EXPECT_EQ(t.ahead, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(Topology{}.nodes(), 0);
}

TEST(Topology, RanksAreSpreadEvenlyOrFillTheirNodes) {
  EXPECT_EQ(even_topology(10, 2).size, (std::vector<int>{5, 5}));
  EXPECT_EQ(full_topology(10, 8).size, (std::vector<int>{8, 2}));
  EXPECT_EQ(full_topology(10, 8).node, (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(full_topology(8, 8).size, (std::vector<int>{8}));
  EXPECT_EQ(full_topology(3, 1).size, (std::vector<int>{1, 1, 1}));
}

// By node: what a call in which each rank of the ring sends to the next one sends out of it.
std::vector<size_t> walk(Collective collective, size_t bytes, int root, const Topology& t) {
  const int ranks = static_cast<int>(t.node.size());
  std::vector<int> ring(t.node.size());
  std::iota(ring.begin(), ring.end(), 0);
  std::ranges::stable_sort(ring, {}, [&](int rank) { return t.node[rank]; });
  const int start = static_cast<int>(std::ranges::find(ring, root) - ring.begin());
  std::vector<size_t> sum(t.size.size());
  for (int at = 0; at < ranks; ++at) {
    const int here = t.node[ring[at]], next = t.node[ring[(at + 1) % ranks]];
    if (here != next) sum[here] += raw_bytes(collective, bytes, {ranks, at, start});
  }
  return sum;
}

TEST(Topology, RingsLeaveANodeOnce) {
  for (const Hosts& hosts : kLayouts)
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce})
      for (int root = 0; root < static_cast<int>(hosts.size()); ++root) {
        const Topology t = topology_of(hosts);
        const int ranks = static_cast<int>(hosts.size());
        std::vector<size_t> sum(t.size.size()), least(sum.size(), SIZE_MAX), most(sum);
        for (int rank = 0; rank < ranks; ++rank) {
          const Traffic sent = raw_traffic(collective, 1001, {ranks, rank, root}, t);
          EXPECT_EQ(sent.bytes, raw_bytes(collective, 1001, {ranks, rank, root}));
          const int node = t.node[rank];
          sum[node] += sent.off_node;
          least[node] = std::min(least[node], sent.off_node);
          most[node] = std::max(most[node], sent.off_node);
        }
        EXPECT_EQ(sum, walk(collective, 1001, root, t)) << name(collective) << " root " << root;
        for (size_t node = 0; node < sum.size(); ++node) EXPECT_LE(most[node] - least[node], 1u);
      }
}

TEST(Topology, ShardsThatGoStraightLeaveWhereTheirRankIsElsewhere) {
  const Topology t = topology_of(Hosts{1, 2, 2, 1, 2});
  const auto off = [&](Collective c, int rank, int root) {
    return raw_traffic(c, 100, {5, rank, root}, t).off_node;
  };
  EXPECT_EQ(off(Collective::kAllToAll, 0, 0), 300u);
  EXPECT_EQ(off(Collective::kAllToAll, 1, 0), 200u);
  EXPECT_EQ(off(Collective::kGather, 3, 0), 0u);
  EXPECT_EQ(off(Collective::kGather, 4, 0), 100u);
  EXPECT_EQ(off(Collective::kScatter, 0, 0), 300u);
  EXPECT_EQ(off(Collective::kScatter, 1, 0), 0u);
  EXPECT_EQ(off(Collective::kSend, 0, 3), 0u);
  EXPECT_EQ(off(Collective::kSend, 0, 2), 100u);
  EXPECT_EQ(off(Collective::kRecv, 0, 2), 0u);
}

// Four nodes of two ranks in two pods, of which the first has the nodes 0 and 2.
Topology in_two_pods() {
  Topology t = even_topology(8, 4);
  EXPECT_EQ(put_into_pods(std::vector<uint64_t>{5, 5, 6, 6, 5, 5, 6, 6}, &t), "");
  return t;
}

TEST(Topology, PodsAreLeftWhereTheNextNodeIsInAnotherOne) {
  const auto off_pod = [](const Topology& t, int rank) {
    const Traffic sent = raw_traffic(Collective::kAllReduce, 800, {8, rank, 0}, t);
    EXPECT_EQ(sent.off_node, 2u * 700 / 2);
    return sent.off_pod;
  };
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(off_pod(in_two_pods(), rank), 700u) << "its nodes are not side by side";
    EXPECT_EQ(off_pod(even_topology(8, 4, 2), rank), rank / 2 % 2 == 0 ? 0u : 700u) << rank;
    EXPECT_EQ(off_pod(even_topology(8, 4), rank), 0u) << "there are none";
  }
}

TEST(Topology, ShardsThatGoStraightLeaveAPodWhereTheirRankIsElsewhere) {
  const Topology t = in_two_pods();
  const auto off = [&](Collective c, int rank, int root) {
    return raw_traffic(c, 100, {8, rank, root}, t).off_pod;
  };
  EXPECT_EQ(off(Collective::kAllToAll, 3, 0), 400u);
  EXPECT_EQ(off(Collective::kGather, 5, 0), 0u) << "rank 5 is on node 2";
  EXPECT_EQ(off(Collective::kGather, 3, 0), 100u);
  EXPECT_EQ(off(Collective::kScatter, 0, 0), 400u);
  EXPECT_EQ(off(Collective::kScatter, 1, 0), 0u);
  const std::vector<size_t> to{0, 1, 2, 4, 8, 16, 32, 64};
  EXPECT_EQ(traffic_to(to, 0, t), (Traffic{127, 126, 2 + 4 + 32 + 64}));
}

TEST(Topology, NothingLeavesOneNodeOrUnknownOnes) {
  for (const Topology& t : {Topology{}, topology_of(Hosts{4, 4, 4})})
    for (size_t c = 0; c < kCollectives; ++c)
      EXPECT_EQ(raw_traffic(static_cast<Collective>(c), 100, {3, 1, 2}, t).off_node, 0u);
  EXPECT_EQ(traffic_to(std::vector<size_t>{0, 5, 7}, 0, Topology{}).off_node, 0u);
  // A root that is not there is for NCCL to refuse.
  for (const int root : {-1, 4, 1 << 30})
    EXPECT_EQ(raw_traffic(Collective::kBroadcast, 100, {4, 1, root}, topology_of(Hosts{1, 1, 2, 2}))
                  .off_node,
              0u);
}

TEST(Topology, PlansKnowWhatGoesToWhom) {
  for (const Hosts& hosts : kLayouts)
    for (const Algorithm& algorithm : algorithms())
      for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
        const Topology t = topology_of(hosts);
        if (needs_grid(algorithm) && !t.is_grid()) continue;
        Shape shape{
            .count = 5000,
            .ranks = static_cast<int>(hosts.size()),
            .rank = rank,
            .root = static_cast<int>(hosts.size()) - 1,
            .packing = packing_for(algorithm, {32, [](size_t n) { return n + (n + 31) / 32 * 4; }}),
            .topology = t};
        shape.packing.codes = [](size_t n) { return n; };
        const Plan plan = algorithm.build(shape);
        Traffic want;
        for (const Step& step : plan.steps)
          for (const Transfer& transfer : step.transfers)
            if (transfer.send)
              want += {transfer.bytes, hosts[transfer.peer] == hosts[rank] ? 0 : transfer.bytes};
        EXPECT_EQ(want, traffic_to(plan.wire_to, rank, t)) << plan.algorithm << " rank " << rank;
        EXPECT_EQ(want.bytes, plan.wire_bytes);
      }
}

// A ring takes all ranks of a node by one link; a two-shot AllReduce has each of them send to each
// of the others.
TEST(Topology, TwoShotSendsMoreBetweenNodesThanARing) {
  const Topology t = topology_of(Hosts{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  for (const size_t element : {size_t{4}, size_t{2}}) {
    const size_t count = (size_t{64} << 20) / element;
    Traffic native, compressed;
    for (int rank = 0; rank < 8; ++rank) {
      const Shape shape{.count = count,
                        .element_bytes = element,
                        .ranks = 16,
                        .rank = rank,
                        .packing = {128, [](size_t n) { return n + n / 128 * 4; }}};
      compressed += traffic_to(two_shot_all_reduce(shape).wire_to, rank, t);
      native += raw_traffic(Collective::kAllReduce, count * element, {16, rank, 0}, t);
    }
    EXPECT_EQ(native.off_node, 2 * (size_t{64} << 20) / 16 * 15);
    EXPECT_EQ(compressed.off_node, 8 * (count + count / 128 * 4));
  }
}

// Of all nodes, also where a short message has fewer shards than ranks, and the first ones own
// them.
TEST(Topology, TheLinkIsThatOfTheNodeThatSendsTheMost) {
  std::mt19937 random(10);
  for (const Algorithm& a : algorithms())
    for (int trial = 0; trial < test::trials(100, 25); ++trial) {
      if (is_point_to_point(a.collective)) continue;
      Hosts hosts;
      const bool grid = needs_grid(a);
      for (uint64_t host = 0, nodes = (grid ? 2 : 1) * (2 + random() % 4), own = 2 + random() % 3;
           host < nodes; ++host)
        hosts.insert(hosts.end(), grid ? own : 1 + random() % 10, host);
      const int ranks = static_cast<int>(hosts.size());
      const int root = static_cast<int>(random() % ranks);
      Shape shape{
          .count = 1 + random() % (trial % 2 ? 300'000 : 3'000),
          .ranks = ranks,
          .rank = root,
          .root = root,
          .packing = packing_for(a, {128, [](size_t n) { return n + (n + 127) / 128 * 4; }}),
          .topology = topology_of(hosts)};
      shape.packing.codes = [](size_t n) { return n; };
      const size_t link = link_of(a, shape).compressed.off_node;
      size_t most = 0;
      for (int node = 0; node < shape.topology.nodes(); ++node) {
        size_t sent = 0;
        for (shape.rank = 0; shape.rank < ranks; ++shape.rank)
          if (shape.topology.node[shape.rank] == node) sent += a.cost(shape).sent.off_node;
        most = std::max(most, sent);
      }
      EXPECT_EQ(link, most) << name(a.collective) << " " << a.names.own << ", " << shape.count
                            << " elements on " << ranks << " ranks of root " << root;
    }
}

}  // namespace
}  // namespace terse::plan
