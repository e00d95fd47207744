// Plans of all ranks of a call, as many as thousands: every message that is sent is received.
#include <gtest/gtest.h>

#include <unordered_map>

#include "plan/algorithms.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

// Messages of pairs of ranks, as far as plans were added. Those of a pair go in the same steps, in
// the same order and size, on both sides.
class Pairs {
 public:
  void add(const Plan& plan, int rank) {
    uint64_t steps = 0;
    for (const Step& step : plan.steps) {
      if (step.lane != Lane::kCommunicate) continue;
      for (const Transfer& t : step.transfers) {
        Sides& pair = pairs_[t.send ? key(rank, t.peer) : key(t.peer, rank)];
        uint64_t& side = t.send ? pair.sent : pair.received;
        side = ((side ^ steps) * 0x9e3779b97f4a7c15 ^ t.bytes) * 0xff51afd7ed558ccd + 1;
      }
      ++steps;
    }
    steps_ = std::max(steps_, steps);
    is_in_step_ = is_in_step_ && steps == steps_;
  }

  size_t count() const { return pairs_.size(); }
  bool match() const {
    return is_in_step_ && std::ranges::all_of(pairs_, [](const auto& pair) {
             return pair.second.sent == pair.second.received;
           });
  }

 private:
  struct Sides {
    uint64_t sent = 0, received = 0;
  };
  static uint64_t key(int from, int to) { return static_cast<uint64_t>(from) << 32 | to; }

  std::unordered_map<uint64_t, Sides> pairs_;
  uint64_t steps_ = 0;
  bool is_in_step_ = true;
};

Shape shape_on(int nodes, int node_ranks, size_t count) {
  const int ranks = nodes * node_ranks;
  return {.count = count,
          .ranks = ranks,
          .root = ranks / 3,
          .chunk_policy = kGpuChunks,
          .packing = block_packing(32),
          .topology = even_topology(ranks, nodes),
          .outer = {Format::kOuterPacked, block_packing(32, 16)}};
}

Pairs pairs_of(Plan (*build)(const Shape&), Shape shape) {
  Pairs pairs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) pairs.add(build(shape), shape.rank);
  return pairs;
}

// 4 nodes of 2 ranks: each rank has a neighbour, and two peers on other nodes.
TEST(Pairs, MatchInAllPlansOfACall) {
  const Pairs pairs = pairs_of(multilevel_all_reduce, shape_on(4, 2, 4096));
  EXPECT_TRUE(pairs.match());
  EXPECT_EQ(pairs.count(), 8u * 3);
}

TEST(Pairs, DoNotMatchWhereOneMessageIsAnother) {
  const auto match = [](auto&& change) {
    Shape shape = shape_on(4, 2, 4096);
    Pairs pairs;
    for (; shape.rank < shape.ranks; ++shape.rank) {
      Plan plan = multilevel_all_reduce(shape);
      if (shape.rank == 5) change(plan);
      pairs.add(plan, shape.rank);
    }
    return pairs.match();
  };
  const auto exchange = [](Plan& plan) -> Step& {
    return *std::ranges::find(plan.steps, Lane::kCommunicate, &Step::lane);
  };
  EXPECT_TRUE(match([](Plan&) {}));
  EXPECT_FALSE(match([&](Plan& plan) { ++exchange(plan).transfers[0].bytes; }));
  EXPECT_FALSE(match([&](Plan& plan) { exchange(plan).transfers.pop_back(); }));
  EXPECT_FALSE(match([&](Plan& plan) {
    plan.steps.insert(plan.steps.begin(), Step{.name = "exchange", .lane = Lane::kCommunicate});
  }));
}

// In one part, and in several.
TEST(Pairs, MatchOnThousandsOfRanks) {
  const struct {
    int nodes;
    size_t count;
  } kCalls[] = {{test::trials(2048, 256), size_t{16} << 20},
                {test::trials(256, 32), size_t{512} << 20}};
  for (const auto& [nodes, count] : kCalls) {
    const Pairs pairs = pairs_of(multilevel_all_reduce, shape_on(nodes, 8, count));
    EXPECT_TRUE(pairs.match()) << count;
    EXPECT_LE(pairs.count(), size_t{8} * nodes * 60);
  }
}

TEST(Pairs, MatchWhateverTheCollective) {
  for (const auto& build : {multilevel_reduce, multilevel_broadcast})
    for (const size_t count : {size_t{1} << 20, size_t{256} << 20})
      EXPECT_TRUE(pairs_of(build, shape_on(test::trials(128, 32), 8, count)).match());
  for (const auto& build : {multilevel_reduce_scatter, multilevel_all_gather})
    for (const size_t count : {size_t{1} << 10, size_t{4} << 20})
      EXPECT_TRUE(pairs_of(build, shape_on(test::trials(128, 32), 8, count)).match());
}

}  // namespace
}  // namespace terse::plan
