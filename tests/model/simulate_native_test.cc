// NCCL's own algorithms, simulated, against times that are made by hand.
#include "model/simulate_native.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/predict.h"

namespace terse::model {
namespace {

using plan::Collective;

constexpr double kLatency = 0x1p-10, kFarLatency = 0x1p-8;
constexpr double kRate = 0x1p20, kFarRate = 0x1p18;  // bytes a second

Profile machine(double latency = kLatency, double far_latency = kFarLatency) {
  return {.within = Link{latency, kRate}, .between = Link{far_latency, kFarRate}};
}

plan::Shape shape(int ranks, int nodes, size_t bytes, int pods = 1) {
  return {.count = bytes / 4, .ranks = ranks, .topology = plan::even_topology(ranks, nodes, pods)};
}

double seconds_of(Collective collective, const plan::Shape& shape, const Profile& profile) {
  return simulate_native(profile, collective, shape).value();
}

TEST(SimulateNative, ARingTakesARoundForEachPeer) {
  const double round = kLatency + (size_t{1} << 16) / kRate;
  const plan::Shape gather = shape(4, 1, size_t{1} << 16), sum = shape(4, 1, size_t{1} << 18);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, gather, machine()), 3 * round);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kReduceScatter, gather, machine()), 3 * round);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllReduce, sum, machine()), 6 * round);
}

TEST(SimulateNative, ACallTakesALaunch) {
  Profile p = machine();
  p.launch = 1;
  const plan::Shape s = shape(4, 1, size_t{1} << 16);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, s, p),
                   1 + seconds_of(Collective::kAllGather, s, machine()));
}

// Of a node one rank sends to the next node, what all do.
TEST(SimulateNative, ARingLeavesANodeOnce) {
  const plan::Shape s = shape(16, 4, size_t{1} << 16);
  const double round = (size_t{1} << 16) / kFarRate;
  EXPECT_NEAR(seconds_of(Collective::kAllGather, s, machine(0, 0)), 15 * round, round);
}

// Each with its part of the node's rate.
TEST(SimulateNative, ANodeHasARingForEachLink) {
  const plan::Shape s = shape(16, 4, size_t{1} << 16);
  Profile rails = machine();
  rails.nics = 4;
  EXPECT_NEAR(seconds_of(Collective::kAllGather, s, rails),
              seconds_of(Collective::kAllGather, s, machine()), 1e-9);
}

// The last rank of a node in one ring is another one in each other ring.
TEST(SimulateNative, ARankSendsWithinItsNodeInAllRingsButOne) {
  const size_t bytes = size_t{1} << 16;
  const plan::Shape s = shape(16, 4, bytes);
  Profile p = machine(0, 0);
  p.within->bandwidth = kFarRate;
  p.between->bandwidth = kRate;
  p.nics = 4;
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, s, p), 15 * bytes * 3 / 4 / kFarRate);
  p.nics = 2;  // of four ranks two are the last one in no ring
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, s, p), 15 * bytes / kFarRate);
}

TEST(SimulateNative, ANodeAloneHasOneRing) {
  const plan::Shape s = shape(4, 1, size_t{1} << 16);
  Profile rails = machine();
  rails.nics = 4;
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, s, rails),
                   seconds_of(Collective::kAllGather, s, machine()));
}

// A round does not slow the one before it: what comes over a faster link waits for its turn.
TEST(SimulateNative, RoundsFollowEachOther) {
  const size_t bytes = size_t{8} << 20;
  const plan::Shape s = shape(16, 2, bytes);
  Profile p = machine(0, 0);
  p.within->bandwidth = kFarRate;
  p.between->bandwidth = kRate;
  p.nics = 8;
  EXPECT_DOUBLE_EQ(seconds_of(Collective::kAllGather, s, p), 15 * bytes * 7 / 8 / kFarRate);
}

// A block of the slowest path goes around once: latencies between nodes add up, once each.
TEST(SimulateNative, LatenciesAddUpAlongTheRing) {
  const plan::Shape s = shape(16, 4, 16);
  Profile p = machine();
  p.within->bandwidth = p.between->bandwidth = 1e15;
  EXPECT_NEAR(seconds_of(Collective::kAllGather, s, p), 4 * kFarLatency + 11 * kLatency, 1e-9);
  plan::Shape uneven = shape(9, 1, 16);
  uneven.topology = plan::full_topology(9, 4);
  EXPECT_NEAR(seconds_of(Collective::kAllGather, uneven, p), 3 * kFarLatency + 5 * kLatency, 1e-9);
}

// Nodes that are alike all do the same: two of them stand for all.
TEST(SimulateNative, TwoNodesStandForAll) {
  plan::Shape s = shape(64, 16, size_t{1} << 12);
  const double folded = seconds_of(Collective::kAllGather, s, machine());
  s.topology = plan::even_topology(64, 16, 4);  // with pods it is the whole ring
  Profile p = machine();
  p.pods = Link{kFarLatency, kFarRate};
  EXPECT_NEAR(seconds_of(Collective::kAllGather, s, p), folded, 1e-9);
}

// A tree takes twice its height in latencies.
TEST(SimulateNative, ATreeIsFastForShortSums) {
  Profile p = machine(0, 1);
  const plan::Shape s = shape(64, 64, 64);
  EXPECT_NEAR(seconds_of(Collective::kAllReduce, s, p), 2 * 6, 0.05);
  EXPECT_NEAR(seconds_of(Collective::kAllGather, s, p), 63, 0.05);
}

// Two trees share the links evenly: a node sends and receives the sum twice, in chunks that follow
// each other up and down. A ring has too much latency here.
TEST(SimulateNative, TreesOfLongSumsTakeTheirBytes) {
  const size_t bytes = size_t{64} << 20;
  constexpr double kSlow = 32;
  for (const int nodes : {31, 32, 33, 64, 100}) {
    const double links = 2.0 * static_cast<double>(bytes) / kFarRate,
                 latencies = 2 * std::ceil(std::log2(nodes)) * kSlow,
                 own = seconds_of(Collective::kAllReduce, shape(nodes, nodes, bytes),
                                  machine(0, kSlow));
    EXPECT_GE(own, links * (nodes - 1) / nodes) << nodes;
    EXPECT_LE(own, links + latencies) << nodes;
  }
}

TEST(SimulateNative, AgreesWithThePredictionOfLongCalls) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter})
    for (const auto& [ranks, nodes] : {std::pair{8, 1}, {8, 8}, {64, 8}, {256, 32}}) {
      const plan::Shape s = shape(ranks, nodes, size_t{64} << 20);
      EXPECT_NEAR(seconds_of(collective, s, machine()) / native_seconds(machine(), collective, s),
                  1, 0.15)
          << plan::name(collective) << " of " << ranks << " ranks";
    }
}

TEST(SimulateNative, OthersThanRingsAreLeftOut) {
  EXPECT_FALSE(simulate_native(machine(), Collective::kAllToAll, shape(4, 1, 1024)));
  EXPECT_FALSE(simulate_native(machine(), Collective::kBroadcast, shape(4, 1, 1024)));
}

// Two nodes stand for all only without pods.
TEST(SimulateNative, RingsThatAreTooLongAreLeftOut) {
  const plan::Shape s = shape(4096, 512, 4096, 64);
  EXPECT_FALSE(simulate_native(machine(), Collective::kAllGather, s));
  EXPECT_TRUE(simulate_native(machine(), Collective::kAllReduce, s));
  EXPECT_TRUE(simulate_native(machine(), Collective::kAllGather, shape(4096, 512, 4096)));
}

}  // namespace
}  // namespace terse::model
