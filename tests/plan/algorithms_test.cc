// The table of algorithms: which one does a call, and whether its cost is that of its plan.
#include "plan/algorithms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "grids.h"
#include "plan/chunks.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

Algo algo(std::string_view name) { return find_algo(name).value(); }

struct Chosen {
  std::string algorithm, reason;
  bool operator==(const Chosen&) const = default;
};

void PrintTo(const Chosen& c, std::ostream* out) { *out << c.algorithm << ": " << c.reason; }

Chosen choose(Collective collective, const Shape& shape, std::string_view wish = "auto") {
  const Selection s = select(collective, shape, algo(wish));
  return {s.algorithm->build(shape).algorithm, s.reason};
}

Shape shape_of(size_t count, int ranks) {
  return {.count = count, .ranks = ranks, .root = 1, .packing = test_packing(32)};
}

constexpr const char* kSmall = "a small message: latency counts";
constexpr const char* kLarge = "a large message: bytes count";
constexpr const char* kOnly = "the only algorithm for it";

TEST(Algorithms, TwoRanksAndSmallMessagesGoInOneStep) {
  const struct {
    Collective collective;
    const char *direct, *two_step, *of_two;
  } kPairs[] = {
      {Collective::kAllReduce, "one-shot AllReduce", "two-shot AllReduce",
       "two ranks: the same bytes as two-shot in one step"},
      {Collective::kBroadcast, "direct Broadcast", "shared Broadcast",
       "two ranks: nobody to share with"},
      {Collective::kReduce, "direct Reduce", "two-shot Reduce",
       "two ranks: no more bytes than two-shot, in one step"},
  };
  for (const auto& p : kPairs) {
    EXPECT_EQ(choose(p.collective, shape_of(1 << 20, 2)), (Chosen{p.direct, p.of_two}));
    EXPECT_EQ(choose(p.collective, shape_of(1, 2)), (Chosen{p.direct, p.of_two}));
    // Up to 64 KiB of all ranks together.
    EXPECT_EQ(choose(p.collective, shape_of(4096, 4)), (Chosen{p.direct, kSmall}));
    EXPECT_EQ(choose(p.collective, shape_of(4097, 4)), (Chosen{p.two_step, kLarge}));
  }
}

TEST(Algorithms, TheSchemeMayNameOne) {
  const struct {
    Collective collective;
    const char *wish, *algorithm;
  } kCases[] = {
      {Collective::kAllReduce, "oneshot", "one-shot AllReduce"},
      {Collective::kAllReduce, "twoshot", "two-shot AllReduce"},
      {Collective::kBroadcast, "oneshot", "direct Broadcast"},
      {Collective::kBroadcast, "direct", "direct Broadcast"},
      {Collective::kBroadcast, "twoshot", "shared Broadcast"},
      {Collective::kBroadcast, "shared", "shared Broadcast"},
      {Collective::kReduce, "oneshot", "direct Reduce"},
      {Collective::kReduce, "direct", "direct Reduce"},
      {Collective::kReduce, "twoshot", "two-shot Reduce"},
  };
  for (const auto& c : kCases)
    for (const size_t count : {100, 1 << 20})
      for (const int ranks : {2, 4})
        EXPECT_EQ(choose(c.collective, shape_of(count, ranks), c.wish),
                  (Chosen{c.algorithm, fmt::format("the scheme says {}", c.wish)}));
}

// One scheme may be for calls of all kinds.
TEST(Algorithms, ANameThatTheCollectiveDoesNotHaveStandsForAuto) {
  const Shape large = shape_of(1 << 20, 4);
  EXPECT_EQ(choose(Collective::kAllReduce, large, "direct"),
            (Chosen{"two-shot AllReduce", kLarge}));
  EXPECT_EQ(choose(Collective::kReduce, large, "shared"), (Chosen{"two-shot Reduce", kLarge}));
  for (const Collective c : {Collective::kAllGather, Collective::kReduceScatter,
                             Collective::kAllToAll, Collective::kGather, Collective::kScatter})
    for (const char* wish : {"auto", "oneshot", "twoshot", "shared"})
      EXPECT_EQ(choose(c, large, wish), (Chosen{name(c), kOnly}));
  for (const Collective c : {Collective::kSend, Collective::kRecv})
    EXPECT_EQ(choose(c, large, "twoshot"), (Chosen{"Send/Recv", kOnly}));
}

TEST(Algorithms, NamesAreThoseOfTheTableEachOnce) {
  const auto names = algo_names();
  std::vector<std::string_view> wanted{"auto"};
  for (const Algorithm& a : algorithms())
    for (const std::string_view n : {a.names.own, a.names.also})
      if (!n.empty() && std::ranges::find(wanted, n) == wanted.end()) wanted.push_back(n);
  EXPECT_EQ(std::vector(names.begin(), names.end()), wanted);
  for (const char* known : {"multilevel", "hierarchical", "oneshot", "twoshot", "direct", "shared"})
    EXPECT_EQ(std::ranges::count(names, known), 1) << known;
  for (const std::string_view n : names) EXPECT_EQ(name(algo(n)), n);
  EXPECT_EQ(algo("auto"), Algo{});
  for (const char* text : {"", "star", "Oneshot", "oneshot "})
    EXPECT_FALSE(find_algo(text)) << text;
}

// Ranks on nodes of any sizes, in any order.
Topology anywhere(int ranks, std::mt19937& random) {
  std::vector<uint64_t> hosts(ranks);
  for (uint64_t& host : hosts) host = random() % 4;
  return topology_of(hosts);
}

// What a rank sends is what its plan sends, and the steps are those of a message that is not cut.
// Where it is cut, in two levels, there is padding in a neighbour's message for each chunk.
TEST(Algorithms, CostIsThatOfThePlan) {
  std::mt19937 random(3);
  for (const Algorithm& a : algorithms())
    for (int trial = 0; trial < test::trials(100, 25); ++trial) {
      const bool grid = needs_grid(a);
      const int nodes =
          (a.names.own == "multilevel" ? 2 : 1) * (2 + static_cast<int>(random() % 3));
      const int ranks = grid ? 2 * nodes : 2 + static_cast<int>(random() % 8);
      Shape shape{.count = 1 + random() % (trial % 2 ? 300'000 : 600),
                  .ranks = ranks,
                  .rank = static_cast<int>(random() % ranks),
                  .root = static_cast<int>(random() % ranks),
                  .packing = packing_for(a, {32, [](size_t n) { return n + (n + 31) / 32 * 4; }})};
      if (grid)
        shape.topology = round_robin(ranks, nodes);
      else if (random() % 4)
        shape.topology = anywhere(ranks, random);
      if (random() % 2) {
        std::vector<uint64_t> pods;
        for (const int node : shape.topology.node) pods.push_back(1 + node % 2);
        put_into_pods(pods, &shape.topology);
      }
      if (random() % 2)  // which only those in two levels go by
        shape.within = {Format::kIntraPacked,
                        {64, [](size_t n) { return 2 * n + (n + 63) / 64 * 4; }}};
      if (random() % 2)  // which only those in more levels go by
        shape.outer = {Format::kOuterPacked,
                       {32, [](size_t n) { return 3 * n + (n + 31) / 32 * 4; }}};
      if (a.sharing == Sharing::kNone && random() % 2)  // which only sums go by that all ranks get
        shape.sum = {Format::kSumPacked,
                     {128, [](size_t n) { return 3 * n + (n + 127) / 128 * 4; }}};
      if (a.sharing == Sharing::kNone) shape.packing.codes = [](size_t n) { return n; };
      shape.within.packing.codes = [](size_t n) { return 2 * n; };
      shape.sum.packing.codes = shape.outer.packing.codes = [](size_t n) { return 3 * n; };
      if (is_point_to_point(a.collective) && shape.rank == shape.root) continue;
      SCOPED_TRACE(fmt::format("{} {} {} on {} of {} root {}", name(a.collective), a.names.own,
                               shape.count, shape.rank, ranks, shape.root));
      const Plan cut = a.build(shape);
      size_t sends = 0;
      for (const Step& step : cut.steps)
        sends += static_cast<size_t>(std::ranges::count(step.transfers, true, &Transfer::send));
      const size_t padding = grid ? sends * nodes * (Chunks::kAlignment - 1) : 0;
      // NCCL's own share of a chunk is rounded; and each chunk has a parameter here.
      const size_t native = a.sharing != Sharing::kNone ? 8 * 2 * cut.steps.size() : 0;
      EXPECT_GE(cut.sent_bytes() + native, a.cost(shape).sent.bytes);
      EXPECT_LE(cut.sent_bytes(), a.cost(shape).sent.bytes + padding + native * ranks);
      shape.chunk_policy = exact_chunks(1 << 30);
      const Plan plan = a.build(shape);
      const Traffic sent = traffic_to(plan.wire_to, shape.rank, shape.topology) + plan.native;
      EXPECT_EQ(a.cost(shape).sent.bytes, sent.bytes);
      EXPECT_EQ(a.cost(shape).sent.off_node, sent.off_node);
      EXPECT_EQ(a.cost(shape).sent.off_pod, sent.off_pod);
      EXPECT_EQ(a.cost(shape).steps, static_cast<size_t>(std::ranges::count(
                                         plan.steps, Lane::kCommunicate, &Step::lane)))
          << plan.algorithm;
    }
}

TEST(Algorithms, OfTwoRanksTheDirectOneSendsNoMore) {
  for (Shape shape = shape_of(10'000, 2); shape.rank < 2; ++shape.rank)
    for (const Collective c : {Collective::kAllReduce, Collective::kReduce}) {
      const auto cost = [&](const char* wish) {
        return select(c, shape, algo(wish)).algorithm->cost(shape);
      };
      EXPECT_LE(cost("oneshot").sent.bytes, cost("twoshot").sent.bytes + 4) << name(c);
      EXPECT_LT(cost("oneshot").steps, cost("twoshot").steps);
    }
}

TEST(Algorithms, RanksThatShareLinksGoInTwoLevels) {
  const auto chosen = [](std::vector<uint64_t> hosts, size_t count, const char* wish = "auto") {
    Shape shape = shape_of(count, static_cast<int>(hosts.size()));
    shape.topology = topology_of(hosts);
    const Selection s = select(Collective::kAllReduce, shape, algo(wish));
    return Chosen{std::string(s.algorithm->names.own), s.reason};
  };
  const char* const kTwoLevels = "2 nodes of 2 ranks: the fewest bytes between them";
  EXPECT_EQ(chosen({1, 1, 2, 2}, 1 << 20), (Chosen{"hierarchical", kTwoLevels}));
  EXPECT_EQ(chosen({1, 1, 2, 2}, 1), (Chosen{"hierarchical", kTwoLevels}));
  EXPECT_EQ(chosen({1, 1, 2, 2}, 1, "twoshot"), (Chosen{"twoshot", "the scheme says twoshot"}));
  const auto flat = [](const char* why) {
    return Chosen{"twoshot", std::string("not hierarchical, ") + why + "; " + kLarge};
  };
  EXPECT_EQ(chosen({1, 1, 1, 1}, 1 << 20, "hierarchical"), flat("for all ranks are on one node"));
  EXPECT_EQ(chosen({1, 2, 3, 4}, 1 << 20, "hierarchical"), flat("for each node has one rank"));
  EXPECT_EQ(chosen({1, 2, 2, 2}, 1 << 20, "hierarchical"),
            flat("for the nodes have different numbers of ranks"));
}

// A row may go by the nodes that the ranks are on, and says so.
Answer between_nodes(const Shape& s, Algo wish) {
  const Topology& t = s.topology;
  if (t.nodes() == 0) return {false, "for the nodes are not known"};
  if (t.nodes() == 1) return {false, "for all ranks are on one node"};
  if (wish == Algo{} && s.count < 1000) return {false, "never shown"};
  return {true, fmt::format("{} nodes: a link between them counts", t.nodes())};
}

TEST(Algorithms, MayGoByTheTopology) {
  const std::vector<Algorithm> table = [] {
    const auto rows = algorithms();
    std::vector<Algorithm> all(rows.begin(), rows.end());
    std::erase_if(all, needs_grid);
    Algorithm row = all.front();  // oneshot
    row.names = {"shared"};
    row.applies = between_nodes;
    all.insert(all.begin(), row);
    return all;
  }();
  const auto chosen = [&](const Topology& topology, size_t count, const char* wish) {
    Shape shape = shape_of(count, 4);
    shape.topology = topology;
    const Selection s = select(Collective::kAllReduce, shape, algo(wish), table);
    return Chosen{std::string(s.algorithm->names.own), s.reason};
  };
  const Topology one = topology_of(std::vector<uint64_t>{5, 5, 5, 5});
  const Topology two = topology_of(std::vector<uint64_t>{5, 5, 6, 6});
  EXPECT_EQ(chosen(two, 100'000, "auto"),
            (Chosen{"shared", "2 nodes: a link between them counts"}));
  EXPECT_EQ(chosen(two, 100, "auto"), (Chosen{"oneshot", kSmall}));
  EXPECT_EQ(chosen(two, 100, "shared"), (Chosen{"shared", "the scheme says shared"}));
  EXPECT_EQ(chosen(two, 100'000, "twoshot"), (Chosen{"twoshot", "the scheme says twoshot"}));
  EXPECT_EQ(chosen(one, 100'000, "auto"), (Chosen{"twoshot", kLarge}));
  EXPECT_EQ(
      chosen(one, 100'000, "shared"),
      (Chosen{"twoshot", std::string("not shared, for all ranks are on one node; ") + kLarge}));
  EXPECT_EQ(chosen({}, 100, "shared"),
            (Chosen{"oneshot", std::string("not shared, for the nodes are not known; ") + kSmall}));
}

}  // namespace
}  // namespace terse::plan
