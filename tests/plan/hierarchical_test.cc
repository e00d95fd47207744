// Collectives in levels: their meaning in any order of steps, on any map of ranks to nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include "call_buffers.h"
#include "meaning.h"
#include "plan/algorithms.h"
#include "plan/chunks.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

struct Kind {
  const char* name;
  Collective collective;
  Plan (*build)(const Shape&);
  bool groups = false;  // nodes are in groups
};
constexpr Kind kKinds[] = {
    {"AllReduce", Collective::kAllReduce, hierarchical_all_reduce},
    {"Reduce", Collective::kReduce, hierarchical_reduce},
    {"Broadcast", Collective::kBroadcast, hierarchical_broadcast},
    {"ReduceScatter", Collective::kReduceScatter, hierarchical_reduce_scatter},
    {"AllGather", Collective::kAllGather, hierarchical_all_gather},
    {"AllReduceOfGroups", Collective::kAllReduce, multilevel_all_reduce, true},
    {"ReduceOfGroups", Collective::kReduce, multilevel_reduce, true},
    {"BroadcastOfGroups", Collective::kBroadcast, multilevel_broadcast, true},
    {"ReduceScatterOfGroups", Collective::kReduceScatter, multilevel_reduce_scatter, true},
    {"AllGatherOfGroups", Collective::kAllGather, multilevel_all_gather, true}};

std::string name_of(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

class Hierarchical : public testing::TestWithParam<Kind> {};
class TwoLevels : public Hierarchical {};
INSTANTIATE_TEST_SUITE_P(All, Hierarchical, testing::ValuesIn(kKinds), name_of);
INSTANTIATE_TEST_SUITE_P(All, TwoLevels, testing::ValuesIn(std::span(kKinds).first(5)), name_of);

// By rank: contiguous, round-robin or scattered.
std::vector<uint64_t> hosts_of(int nodes, int places, std::mt19937& random) {
  std::vector<uint64_t> hosts;
  for (int r = 0; r < nodes * places; ++r) hosts.push_back(r / places);
  switch (random() % 3) {
    case 0:
      break;
    case 1:
      for (int r = 0; r < nodes * places; ++r) hosts[r] = r % nodes;
      break;
    default:
      std::ranges::shuffle(hosts, random);
  }
  return hosts;
}

// Sections of bodies are sent of nodes in groups.
Packing packing_of(const Kind& kind, size_t quantum, size_t more = 4) {
  return kind.groups ? block_packing(quantum, more) : test_packing(quantum, more);
}

IntraNode some_within(const Kind& kind, std::mt19937& random) {
  switch (random() % 3) {
    case 0:
      return {};
    case 1:
      return {Format::kRaw};
    default:
      return {Format::kIntraPacked, packing_of(kind, 32 << random() % 3, 12)};
  }
}

OuterFormat some_outer(std::mt19937& random) {
  if (random() % 2) return {};
  return {Format::kOuterPacked, block_packing(32 << random() % 2, 16)};
}

SumFormat some_sum(const Kind& kind, const Packing& packing, std::mt19937& random) {
  const SumFormat sum = some_sum_format(packing, random);
  if (!kind.groups || !sum.repacks()) return sum;
  return {Format::kSumPacked, block_packing(sum.packing.quantum, 20)};
}

// Number of nodes; in groups 2 by 2, 3 by 2 or 3 by 3.
int some_nodes(const Kind& kind, std::mt19937& random) {
  constexpr int kInGroups[] = {4, 6, 9};
  const size_t choice = random() % 3;
  return kind.groups ? kInGroups[choice] : 2 + static_cast<int>(choice);
}

Shape random_shape(const Kind& kind, std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 31, 33, 97, 128, 1000, 4096, 10007};
  static constexpr ChunkPolicy kGrains[] = {
      kHostChunks, exact_chunks(64), exact_chunks(256), exact_chunks(4096), {300, 100, 5}};
  const int nodes = some_nodes(kind, random);
  const int places =
      kind.groups ? 1 + static_cast<int>(random() % 2) : 2 + static_cast<int>(random() % 3);
  const Packing packing = packing_of(kind, 32 << random() % 3);
  return {.count = random() % 3 ? kCounts[random() % std::size(kCounts)] : 1 + random() % 5000,
          .ranks = nodes * places,
          .root = static_cast<int>(random() % (nodes * places)),
          .chunk_policy = kGrains[random() % std::size(kGrains)],
          .packing = packing,
          .topology = topology_of(hosts_of(nodes, places, random)),
          .within = some_within(kind, random),
          .sum = some_sum(kind, packing, random),
          .outer = some_outer(random)};
}

std::vector<Plan> build_all(const Kind& kind, Shape shape) {
  std::vector<Plan> plans;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    plans.push_back(kind.build(shape));
    EXPECT_EQ(validate(plans.back(), shape), "") << print(plans.back());
  }
  return plans;
}

TEST_P(Hierarchical, ComputesTheCollectiveInAnyOrderOfSteps) {
  const Collective collective = GetParam().collective;
  std::mt19937 random(8);
  for (int trial = 0; trial < test::trials(GetParam().groups ? 24 : 80, 20); ++trial) {
    const Shape shape = random_shape(GetParam(), random);
    const bool in_place = random() % 2;
    const CallBuffers b(collective, shape, in_place, random);
    const std::vector<Plan> plans = build_all(GetParam(), shape);
    ASSERT_EQ(simulate(plans, b.send, b.recv, random), "")
        << "count " << shape.count << " ranks " << shape.ranks << "\n"
        << print(plans[0]);
    const Meaning meaning{collective, plans.size(), static_cast<size_t>(shape.root), shape.count};
    const auto value = [&](size_t rank, size_t k) { return b.input[rank][k]; };
    for (size_t r = 0; r < plans.size(); ++r)
      for (size_t i = 0; i < b.results[r]; ++i)
        ASSERT_EQ(b.recv[r][i], meaning(r, i, value, std::plus<>()))
            << "rank " << r << " element " << i << " of " << shape.count
            << (in_place ? " in place\n" : "\n") << print(plans[r]);
  }
}

// Calls that go together stay in step, and all ask for more memory at the same call.
TEST_P(Hierarchical, EveryRankHasTheSameStepsAndScratch) {
  std::mt19937 random(9);
  for (int trial = 0; trial < test::trials(GetParam().groups ? 24 : 50, 12); ++trial) {
    const Shape shape = random_shape(GetParam(), random);
    const std::vector<Plan> plans = build_all(GetParam(), shape);
    const auto exchanges = [](const Plan& plan) {
      std::vector<size_t> turns;
      for (const Step& step : plan.steps)
        if (step.lane == Lane::kCommunicate) turns.push_back(step.turn);
      return turns;
    };
    for (const Plan& plan : plans) {
      ASSERT_EQ(exchanges(plan), exchanges(plans[0]));
      ASSERT_EQ(plan.scratch_bytes, plans[0].scratch_bytes);
    }
  }
}

TEST_P(Hierarchical, ValidateSeesEveryMissingDependency) {
  std::mt19937 random(10);
  const auto packing = [](size_t more) { return packing_of(GetParam(), 32, more); };
  const struct {
    IntraNode within;
    SumFormat sum;
    OuterFormat outer = {};
  } kFormats[] = {{},
                  {IntraNode{Format::kRaw}, {}},
                  {{Format::kIntraPacked, packing(12)}, {}},
                  {{}, {Format::kSumPacked, packing(4), true}},
                  {{}, {Format::kSumPacked, packing(20)}},
                  {{Format::kIntraPacked, packing(12)}, {Format::kSumPacked, packing(20)}},
                  {{}, {}, {Format::kOuterPacked, packing(16)}}};
  const int nodes = GetParam().groups ? 4 : 3;
  for (const auto& [within, sum, outer] : kFormats) {
    Shape shape{.count = GetParam().groups ? 1024u : 3072u,  // nobody owns nothing
                .ranks = 2 * nodes,
                .root = 2,
                .chunk_policy = exact_chunks(2048),
                .packing = packing(4),
                .topology = topology_of(hosts_of(nodes, 2, random)),
                .within = within,
                .sum = sum,
                .outer = outer};
    for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
      const Plan good = GetParam().build(shape);
      ASSERT_EQ(validate(good, shape), "");
      for (size_t i = 0; i < good.steps.size(); ++i)
        for (size_t k = 0; k < good.steps[i].after.size(); ++k) {
          Plan plan = good;
          plan.steps[i].after.erase(plan.steps[i].after.begin() + static_cast<ptrdiff_t>(k));
          EXPECT_NE(validate(plan, shape), "")
              << "step " << i << " without " << good.steps[i].after[k] << "\n"
              << print(good);
        }
    }
  }
}

// A message of several shards is there when all of them are, and no shard lies on another.
TEST(Grids, ValidateSeesEveryMissingShard) {
  const Shape shape{.count = 5000,
                    .ranks = 6,
                    .rank = 3,
                    .chunk_policy = exact_chunks(1 << 20),
                    .packing = test_packing(32),
                    .topology = topology_of(std::vector<uint64_t>{0, 1, 2, 2, 1, 0})};
  const Plan good = hierarchical_all_reduce(shape);
  ASSERT_EQ(validate(good, shape), "");
  const size_t shards = good.steps[0].compute.size();
  ASSERT_EQ(shards, 3u) << print(good);
  for (size_t i = 0; i < shards; ++i) {
    Plan lacks = good, moved = good;
    lacks.steps[0].compute.erase(lacks.steps[0].compute.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_NE(validate(lacks, shape).find("reads scratch that nothing wrote"), std::string::npos);
    moved.steps[0].compute[i].target.offset += Chunks::kAlignment;
    EXPECT_NE(validate(moved, shape), "") << i;
  }
  for (const size_t bytes : {1, 64}) {
    Plan more = good;
    Transfer& row = more.steps[1].transfers[0];
    ASSERT_TRUE(row.send);
    row.bytes += bytes;
    more.wire_bytes += bytes;
    EXPECT_NE(validate(more, shape), "");
  }
}

// A launch names sources by their distances, of which it has room for a few dozen: whatever the map
// of ranks to nodes, those of a sum are evenly apart, but for the rank's own.
TEST_P(Hierarchical, SourcesOfASumAreEvenlyApart) {
  std::mt19937 random(12);
  std::vector<uint64_t> hosts;
  for (uint64_t r = 0; r < 256; ++r) hosts.push_back(r / 2);
  std::ranges::shuffle(hosts, random);
  Shape shape{.count = 256 * 64,
              .ranks = 256,
              .chunk_policy = exact_chunks(1 << 20),
              .packing = packing_of(GetParam(), 32),
              .topology = topology_of(hosts)};
  for (shape.rank = 0; shape.rank < shape.ranks; shape.rank += 51)
    for (const Step& step : GetParam().build(shape).steps)
      for (const Compute& compute : step.compute) {
        size_t distances = 1;
        for (size_t i = 2; i < compute.inputs.size(); ++i) {
          const auto at = [&](size_t k) { return compute.inputs[k].place.offset; };
          distances += at(i) - at(i - 1) != at(i - 1) - at(i - 2);
        }
        EXPECT_LE(distances, 5u) << "rank " << shape.rank << ", " << step.name;
      }
}

// Whatever the number of nodes, for what is packed; of rows, codes and parameters.
TEST_P(Hierarchical, ANeighbourGetsOneMessageForEachPhase) {
  const Traits& traits = plan::traits(GetParam().collective);
  const bool in_rows = GetParam().groups && !traits.send.per_rank && !traits.recv.per_rank;
  std::mt19937 random(11);
  for (int trial = 0; trial < test::trials(40, 10); ++trial) {
    Shape shape = random_shape(GetParam(), random);
    if (shape.within.format == Format::kRaw) continue;
    for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
      const Topology& t = shape.topology;
      for (const Step& step : GetParam().build(shape).steps)
        for (int peer = 0; peer < shape.ranks; ++peer) {
          const auto to = [=](const Transfer& x) { return x.send && x.peer == peer; };
          EXPECT_LE(std::ranges::count_if(step.transfers, to), in_rows ? 4 : 2)
              << t.nodes() << " nodes";
        }
    }
  }
}

// On 3 nodes of 2 ranks, or 4 in groups of 2, in so many chunks.
Shape shape_in_chunks(const Kind& kind, size_t chunks) {
  const Traits& t = traits(kind.collective);
  constexpr size_t kShard = 64;  // of a chunk
  const int nodes = kind.groups ? 4 : 3, ranks = 2 * nodes;
  const bool by_shard = t.send.per_rank || t.recv.per_rank;
  const auto all = static_cast<size_t>(ranks);
  return {.count = chunks * kShard * (by_shard ? 1 : all),
          .ranks = ranks,
          .root = 3,
          .chunk_policy = exact_chunks(4 * kShard * all),
          .packing = packing_of(kind, 64),
          .topology = even_topology(ranks, nodes)};
}

// Also where there are few chunks: while one goes from node to node, another one does within them.
TEST_P(Hierarchical, LevelsOverlapFromTwoChunksOn) {
  for (size_t chunks = 2; chunks <= 20; ++chunks) {
    const Shape shape = shape_in_chunks(GetParam(), chunks);
    const auto goes = [&](const Step& step, int rank, bool within) {
      return std::ranges::any_of(step.transfers, [&](const Transfer& transfer) {
        return shape.topology.is_near(rank, transfer.peer) == within;
      });
    };
    size_t both = 0;
    const std::vector<Plan> plans = build_all(GetParam(), shape);
    for (int rank = 0; rank < shape.ranks; ++rank)
      for (const Step& step : plans[rank].steps)
        both += goes(step, rank, true) && goes(step, rank, false);
    EXPECT_GE(both, chunks - 1) << chunks << " chunks";
  }
}

// A chunk has a place for what goes and comes within a node, and for the shares of all: with what
// is between nodes no more than four times the packed message, in groups five times, and in the end
// not much over it.
TEST_P(Hierarchical, ScratchStaysWithinAFewPackedMessages) {
  for (size_t chunks = 1; chunks <= 200; chunks += 1 + chunks / 8) {
    const Shape shape = shape_in_chunks(GetParam(), chunks);
    const size_t chunk = shape.ranks * Chunks::round_up(shape.packing.bytes(64), 64);
    const size_t most = GetParam().groups ? 5 : 4;
    for (const Plan& plan : build_all(GetParam(), shape))
      EXPECT_LE(plan.scratch_bytes,
                std::min(most * chunks, std::max<size_t>(3 * most + 1, chunks + 2)) * chunk)
          << chunks << " chunks";
  }
}

// What leaves a node, and how many ranks a rank talks to: int4 of 64 MiB on 2 nodes of 4 ranks.
TEST_P(TwoLevels, SendTheLeastBetweenNodes) {
  const Packing int4{128, [](size_t n) { return (n + 1) / 2 + (n + 127) / 128 * 4; }};
  constexpr size_t kCount = size_t{16} << 20;
  struct Least {
    int root;
    size_t halves;  // of the whole message that leave the first node, packed
    size_t gain;    // bytes that NCCL sends in their place: at least so many times as many
  };
  const auto least = [](Collective c) -> Least {
    switch (c) {
      case Collective::kAllReduce:
        return {0, 2, 12};
      case Collective::kReduce:  // the other node has the root; NCCL's chain sends the message once
        return {6, 2, 7};
      case Collective::kBroadcast:
        return {2, 2, 7};
      default:
        return {0, 1, 12};
    }
  }(GetParam().collective);
  const Traits& t = traits(GetParam().collective);
  Shape shape{.count = t.send.per_rank || t.recv.per_rank ? kCount / 8 : kCount,
              .ranks = 8,
              .root = least.root,
              .packing = int4,
              .topology = topology_of(std::vector<uint64_t>{0, 0, 0, 0, 1, 1, 1, 1})};
  size_t off_node = 0, raw = 0;
  for (shape.rank = 0; shape.rank < 4; ++shape.rank) {
    const Plan plan = GetParam().build(shape);
    off_node += traffic_to(plan.wire_to, shape.rank, shape.topology).off_node;
    raw += raw_traffic(GetParam().collective, 4 * shape.count, shape.position(), shape.topology)
               .off_node;
    // The root of a Broadcast needs nothing of its neighbours.
    const bool spares_one = t.send.who == Who::kRoot && shape.rank != shape.root;
    EXPECT_EQ(std::ranges::count_if(plan.wire_to, [](size_t bytes) { return bytes != 0; }),
              3 + (spares_one ? 0 : 1));
  }
  EXPECT_EQ(off_node, least.halves * int4.bytes(kCount / 2));
  EXPECT_GT(raw, least.gain * off_node);
}

TEST(Grids, AreNodesOfEquallyManyRanks) {
  const auto is_grid = [](std::vector<uint64_t> hosts) { return topology_of(hosts).is_grid(); };
  EXPECT_TRUE(is_grid({1, 1, 2, 2}));
  EXPECT_TRUE(is_grid({1, 2, 3, 3, 2, 1}));
  EXPECT_FALSE(is_grid({}));
  EXPECT_FALSE(is_grid({1, 1, 1}));
  EXPECT_FALSE(is_grid({1, 2, 3}));
  EXPECT_FALSE(is_grid({1, 1, 2}));
}

}  // namespace
}  // namespace terse::plan
