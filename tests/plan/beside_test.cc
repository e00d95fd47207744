// What NCCL itself does beside an algorithm: exact elements stay exact and all others as they are
// without, and the result of the whole call is there to compare with.
#include "plan/beside.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "call_buffers.h"
#include "grids.h"
#include "meaning.h"
#include "plan/algorithms.h"
#include "plan/order.h"
#include "simulator.h"

namespace terse::plan {
namespace {

using Values = std::vector<int32_t>;

constexpr int32_t kLoss = 1'000'000;  // of each quantization

struct Case {
  const Algorithm& algorithm;
  Shape shape;  // of rank 0
  std::vector<Range> exact;
  bool verified, in_place;
};

// The ranks' buffers and what has become of them.
struct Played {
  CallBuffers buffers;
  std::vector<Plan> plans = {};
  std::vector<Values> exact = {};
  std::string error = {};
};

Played play(const Case& c, std::mt19937 random) {
  Played p{CallBuffers(c.algorithm.collective, c.shape, c.in_place, random)};
  Shape s = c.shape;
  for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
    p.plans.push_back(with(c.algorithm.build(s), c.algorithm.collective, s,
                           {.exact = c.exact, .verified = c.verified}));
    EXPECT_EQ(validate(p.plans.back(), s), "") << print(p.plans.back());
    p.exact.emplace_back(p.plans.back().exact_bytes / 4, -1);
  }
  std::vector<std::vector<Memory>> memory;
  for (size_t r = 0; r < p.plans.size(); ++r)
    memory.push_back({{p.buffers.send[r], p.buffers.recv[r], p.exact[r].data()}});
  p.error = simulate(p.plans, memory, random, kLoss);
  return p;
}

std::vector<Range> random_ranges(std::mt19937& random, size_t elements) {
  std::vector<Range> ranges;
  for (size_t first = random() % elements; first < elements && ranges.size() < 5;) {
    const size_t count = std::min<size_t>(1 + random() % (elements / 3 + 1), elements - first);
    ranges.push_back({first, count});
    first += count + random() % (elements / 4 + 1);
  }
  return ranges;
}

bool holds(const std::vector<Range>& ranges, size_t element) {
  return std::ranges::any_of(
      ranges, [=](const Range& r) { return element >= r.first && element - r.first < r.count; });
}

Shape random_shape(const Algorithm& a, std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 31, 97, 1000, 4096};
  const int ranks = 4 + 2 * static_cast<int>(random() % 2);
  return {.count = kCounts[random() % std::size(kCounts)],
          .ranks = ranks,
          .root = static_cast<int>(random() % ranks),
          .grain = exact_grain(size_t{256} << random() % 8),
          .packing = packing_for(a, test_packing(32)),
          .topology = round_robin(ranks, 2)};
}

// Sums of a few packed elements lose a few times as much; what is exact loses nothing.
void check(const Case& c, const std::mt19937& random) {
  const Collective collective = c.algorithm.collective;
  Played p = play(c, random);
  ASSERT_EQ(p.error, "") << print(p.plans[0]);
  const Played without = play({c.algorithm, c.shape, {}, false, c.in_place}, random);
  const CallBuffers& b = p.buffers;
  const Meaning meaning{collective, p.plans.size(), static_cast<size_t>(c.shape.root),
                        c.shape.count};
  const auto value = [&](size_t r, size_t k) { return b.input[r][k]; };
  for (size_t r = 0; r < p.plans.size(); ++r) {
    const size_t first = collective == Collective::kReduceScatter ? r * c.shape.count : 0;
    for (size_t i = 0; i < b.results[r]; ++i) {
      const int32_t exact = meaning(r, i, value, std::plus<>());
      if (holds(c.exact, first + i))
        ASSERT_EQ(b.recv[r][i], exact) << "rank " << r << " element " << i;
      else
        ASSERT_EQ(b.recv[r][i], without.buffers.recv[r][i]) << "rank " << r << " element " << i;
      if (c.verified) {
        ASSERT_EQ(p.exact[r][i], exact) << "rank " << r << " element " << i;
      }
    }
    EXPECT_EQ(p.exact[r].size(), c.verified ? b.results[r] : 0);
  }
}

TEST(Beside, ExactElementsStayExactInAnyOrderOfSteps) {
  std::mt19937 random(8);
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    for (int trial = 0; trial < 60; ++trial) {
      const Shape s = random_shape(a, random);
      const size_t whole = s.count * shards(a.collective, s.ranks);
      check({a, s, random_ranges(random, whole), random() % 2 == 0, random() % 2 == 0}, random);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(Beside, TheNativeResultOfEveryCollective) {
  std::mt19937 random(9);
  for (const Algorithm& a : algorithms()) {
    if (is_point_to_point(a.collective)) continue;
    for (int trial = 0; trial < 20; ++trial) {
      check({a, random_shape(a, random), {}, true, random() % 2 == 0}, random);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Else the test above would say nothing.
TEST(Beside, TheSimulatorsCodecIsLossy) {
  std::mt19937 random(1);
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    const Shape s{.count = 100,
                  .ranks = 4,
                  .packing = packing_for(a, test_packing(32)),
                  .topology = round_robin(4, 2)};
    const Played p = play({a, s, {}, false, false}, random);
    ASSERT_EQ(p.error, "");
    for (size_t i = 0; i < p.buffers.results[0]; ++i)
      EXPECT_LT(p.buffers.recv[0][i], 0) << name(a.collective);
  }
}

TEST(Beside, NothingLeavesThePlanAsItIs) {
  for (const Algorithm& a : algorithms()) {
    const Shape s{.count = 100'000,
                  .ranks = 4,
                  .packing = packing_for(a, test_packing(32)),
                  .topology = round_robin(4, 2)};
    EXPECT_EQ(print(with(a.build(s), a.collective, s, {})), print(a.build(s)));
  }
}

// What the statistics count as sent: what is exact, by the model of NCCL's rings.
TEST(Beside, NativeTrafficIsOfWhatIsExact) {
  Shape s{.count = 1000, .ranks = 4, .rank = 1, .packing = test_packing(32)};
  s.topology = topology_of(std::vector<uint64_t>{1, 1, 2, 2});
  const Range ranges[] = {{0, 100}, {900, 1100}};  // of the first three of four shards
  const auto native = [&](Plan (*build)(const Shape&), Collective c, std::span<const Range> exact) {
    const Plan plan = with(build(s), c, s, {.exact = exact, .verified = true});
    EXPECT_EQ(plan.wire_bytes, build(s).wire_bytes);
    return plan.native;
  };
  const auto model = [&](Collective c, std::vector<std::pair<size_t, int>> calls) {
    Traffic sum;
    for (const auto& [elements, root] : calls)
      sum += raw_traffic(c, 4 * elements, {4, 1, root}, s.topology);
    return sum;
  };
  EXPECT_EQ(native(two_shot_all_reduce, Collective::kAllReduce, {ranges, 1}),
            model(Collective::kAllReduce, {{100, 0}}));
  EXPECT_EQ(native(all_gather, Collective::kAllGather, ranges),
            model(Collective::kBroadcast, {{100, 0}, {100, 0}, {1000, 1}}));
  EXPECT_EQ(native(reduce_scatter, Collective::kReduceScatter, ranges),
            model(Collective::kReduce, {{100, 0}, {100, 0}, {1000, 1}}));
  EXPECT_NE(native(all_gather, Collective::kAllGather, ranges).off_node, 0u);
  EXPECT_EQ(native(all_gather, Collective::kAllGather, {}), Traffic{});
}

// All of it is over when the plan's own part begins, which is timed by itself.
TEST(Beside, ThePlanBeginsBehindWhatIsNative) {
  const Range range{10, 50};
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    const Shape s{.count = 5000,
                  .ranks = 4,
                  .grain = exact_grain(3000),
                  .packing = packing_for(a, test_packing(32)),
                  .topology = round_robin(4, 2)};
    const Plan plan = with(a.build(s), a.collective, s, {.exact = {&range, 1}});
    Order order;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      EXPECT_EQ(step.beside, i == 0 || i + 1 == plan.steps.size());
      EXPECT_EQ(order.is_done(0, step), i > 0);
      order.add(step);
    }
    EXPECT_EQ(plan.scratch_bytes, Chunks::round_up(a.build(s).scratch_bytes, 64) + 200);
  }
}

TEST(Beside, IsPrinted) {
  const Shape s{.count = 100, .ranks = 2, .rank = 1, .packing = test_packing(32)};
  const Range ranges[] = {{90, 20}};
  EXPECT_EQ(print(with(reduce_scatter(s), Collective::kReduceScatter, s,
                       {.exact = ranges, .verified = true})),
            R"(ReduceScatter: 5 steps, scratch 1872 B, wire 404 B, raw 400 B
  native collectives send 40 B
  0 native on communicate 0
    native ReduceScatter exact+0 <- send+0 x100
    native Reduce scratch+1792 <- send+360 x10 root 0
    native Reduce scratch+1832 <- send+400 x10 root 1
  1 encode on encode after 0
    scratch+0 x100 <- send+0 raw [shard 0 stage 0 origin 0]
  2 exchange on communicate 0 after 1
    to 0 scratch+0 x404 B
    from 0 scratch+896 x404 B
  3 reduce on decode after 2
    recv+0 x100 <- scratch+896 send+400 raw final
  4 restore on decode
    recv+0 x40 B <- scratch+1832 as it is
)");
}

}  // namespace
}  // namespace terse::plan
