// What NCCL itself does beside an algorithm: exact elements stay exact and all others as they are
// without, and the result of the whole call is there to compare with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "call_buffers.h"
#include "grids.h"
#include "meaning.h"
#include "plan/algorithms.h"
#include "plan/native_extras.h"
#include "plan/order.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

using Values = std::vector<int32_t>;

constexpr int32_t kLoss = 1'000'000;  // of each quantization

struct Case {
  const Algorithm& algorithm;
  Shape shape;  // of rank 0
  std::vector<Range> exact;
  bool verified, in_place, learns = false;
};

constexpr size_t kLevels = 16;

// The ranks' buffers and what has become of them.
struct Played {
  CallBuffers buffers;
  std::vector<Plan> plans = {};
  std::vector<Values> exact = {}, levels = {};
  std::string error = {};
};

Played play(const Case& c, std::mt19937 random) {
  Played p{CallBuffers(c.algorithm.collective, c.shape, c.in_place, random)};
  Shape s = c.shape;
  for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
    Plan plan = c.algorithm.build(s);
    plan.codebook_bytes = kLevels * 4;
    p.plans.push_back(with(std::move(plan), c.algorithm.collective, s,
                           {.exact = c.exact, .verified = c.verified, .learns = c.learns}));
    EXPECT_EQ(validate(p.plans.back(), s), "") << print(p.plans.back());
    p.exact.emplace_back(p.plans.back().exact_bytes / 4, -1);
    p.levels.emplace_back(kLevels, -1);
  }
  std::vector<std::vector<Memory>> memory;
  for (size_t r = 0; r < p.plans.size(); ++r)
    memory.push_back({{.send = p.buffers.send[r],
                       .recv = p.buffers.recv[r],
                       .exact = p.exact[r].data(),
                       .codebook = p.levels[r].data()}});
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
          .chunk_policy = exact_chunks(size_t{256} << random() % 8),
          .packing = packing_for(a, test_packing(32)),
          .topology = round_robin(ranks, 2)};
}

// Sums of a few packed elements lose a few times as much; what is exact loses nothing.
void check(const Case& c, const std::mt19937& random) {
  const Collective collective = c.algorithm.collective;
  Played p = play(c, random);
  ASSERT_EQ(p.error, "") << print(p.plans[0]);
  const Played without = play({c.algorithm, c.shape, {}, false, c.in_place}, random);
  for (const Values& levels : without.levels) ASSERT_EQ(levels, Values(kLevels, -1));
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

TEST(NativeExtras, ExactElementsStayExactInAnyOrderOfSteps) {
  std::mt19937 random(8);
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    for (int trial = 0; trial < test::trials(60, 15); ++trial) {
      const Shape s = random_shape(a, random);
      const size_t whole = s.count * shards(a.collective, s.ranks);
      check({a, s, random_ranges(random, whole), random() % 2 == 0, random() % 2 == 0}, random);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(NativeExtras, TheNativeResultOfEveryCollective) {
  std::mt19937 random(9);
  for (const Algorithm& a : algorithms()) {
    if (is_point_to_point(a.collective)) continue;
    for (int trial = 0; trial < test::trials(20, 10); ++trial) {
      check({a, random_shape(a, random), {}, true, random() % 2 == 0}, random);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Else the test above would say nothing.
TEST(NativeExtras, TheSimulatorsCodecIsLossy) {
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

TEST(NativeExtras, NothingLeavesThePlanAsItIs) {
  for (const Algorithm& a : algorithms()) {
    const Shape s{.count = 100'000,
                  .ranks = 4,
                  .packing = packing_for(a, test_packing(32)),
                  .topology = round_robin(4, 2)};
    EXPECT_EQ(print(with(a.build(s), a.collective, s, {})), print(a.build(s)));
  }
}

// As the simulator learns them.
Values levels_of(const Played& p) {
  uint32_t widest = 0;
  std::vector<uint64_t> bins(Learn::kBins);
  const auto for_each_sent = [&](const auto& f) {
    for (size_t r = 0; r < p.plans.size(); ++r)
      for (size_t i = 0; i < p.plans[r].buffers.front().send_bytes / 4; ++i)
        f(static_cast<uint32_t>(p.buffers.input[r][i]));
  };
  for_each_sent([&](uint32_t x) { widest = std::max(widest, x); });
  for_each_sent([&](uint32_t x) { bins[x % Learn::kBins] += 1 + widest % 256; });
  return {bins.begin(), bins.begin() + kLevels};
}

// Of what all ranks send, whatever else is done beside, and the call goes on as without.
TEST(NativeExtras, AllRanksLearnTheLevels) {
  std::mt19937 random(10);
  for (const Algorithm& a : algorithms()) {
    if (is_point_to_point(a.collective)) continue;
    for (int trial = 0; trial < test::trials(20, 10); ++trial) {
      Case c{a, random_shape(a, random), {}, random() % 2 == 0, random() % 2 == 0, true};
      if (may_keep_exact(a.collective) && random() % 2 == 0)
        c.exact = random_ranges(random, c.shape.count * shards(a.collective, c.shape.ranks));
      const Played p = play(c, random);
      ASSERT_EQ(p.error, "") << print(p.plans[0]);
      for (const Values& levels : p.levels) ASSERT_EQ(levels, levels_of(p));
      check(c, random);
      ASSERT_FALSE(testing::Test::HasFailure()) << print(p.plans[0]);
    }
  }
}

// What the statistics count as sent: what is exact, by the model of NCCL's rings.
TEST(NativeExtras, NativeTrafficIsOfWhatIsExact) {
  Shape s{.count = 1000, .ranks = 4, .rank = 1, .packing = test_packing(32)};
  s.topology = topology_of(std::vector<uint64_t>{1, 1, 2, 2});
  const Range ranges[] = {{0, 100}, {900, 1100}};  // of the first two of four shards
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
  const Range apart[] = {{0, 100}, {200, 50}};
  EXPECT_EQ(native(two_shot_all_reduce, Collective::kAllReduce, apart),
            model(Collective::kAllReduce, {{150, 0}}));
  EXPECT_EQ(native(all_gather, Collective::kAllGather, ranges),
            model(Collective::kAllGather, {{1000, 0}}));
  EXPECT_EQ(native(reduce_scatter, Collective::kReduceScatter, ranges),
            model(Collective::kReduceScatter, {{1000, 0}}));
  EXPECT_NE(native(all_gather, Collective::kAllGather, ranges).off_node, 0u);
  EXPECT_EQ(native(all_gather, Collective::kAllGather, {}), Traffic{});
  s.count = 100'000;  // and nothing in two shards: padding would cost more than the calls
  const Range few[] = {{0, 100}, {80'000, 21'000}};
  EXPECT_EQ(native(all_gather, Collective::kAllGather, few),
            model(Collective::kBroadcast, {{100, 0}, {20'000, 0}, {1000, 1}}));
  EXPECT_EQ(native(reduce_scatter, Collective::kReduceScatter, few),
            model(Collective::kReduce, {{100, 0}, {20'000, 0}, {1000, 1}}));
}

// FSDP2 cuts each parameter into shards, and so a norm is in all of them.
TEST(NativeExtras, ManyRangesAreOneNativeCall) {
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    Shape s{.count = 5000,
            .ranks = 64,
            .packing = packing_for(a, test_packing(32)),
            .topology = round_robin(64, 8)};
    std::vector<Range> ranges;
    for (size_t shard = 0; shard < shards(a.collective, s.ranks); ++shard)
      for (const size_t first : {0, 1000, 2000}) ranges.push_back({shard * s.count + first, 12});
    for (s.rank = 0; s.rank < s.ranks; s.rank += 21) {
      const Plan plan = with(a.build(s), a.collective, s, {.exact = ranges});
      size_t natives = 0;
      for (const Step& step : plan.steps)
        if (step.is_extra) natives += step.natives.size();
      EXPECT_EQ(natives, 1u) << print(plan);
      const size_t own = Chunks::round_up(a.build(s).scratch_bytes, Chunks::kAlignment);
      EXPECT_EQ(plan.scratch_bytes, own + ranges.size() * 12 * s.element_bytes);
    }
  }
}

// All of it is over when the plan's own part begins, which is timed by itself.
TEST(NativeExtras, ThePlanBeginsBehindWhatIsNative) {
  const Range range{10, 50};
  for (const Algorithm& a : algorithms()) {
    if (!may_keep_exact(a.collective)) continue;
    const Shape s{.count = 5000,
                  .ranks = 4,
                  .chunk_policy = exact_chunks(3000),
                  .packing = packing_for(a, test_packing(32)),
                  .topology = round_robin(4, 2)};
    const Plan plan = with(a.build(s), a.collective, s, {.exact = {&range, 1}});
    Order order;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      EXPECT_EQ(step.is_extra, i == 0 || i + 1 == plan.steps.size());
      EXPECT_EQ(order.is_done(0, step), i > 0);
      order.add(step);
    }
    EXPECT_EQ(plan.scratch_bytes, Chunks::round_up(a.build(s).scratch_bytes, 64) + 200);
  }
}

// When it is timed no rank waits for another, and nothing else goes on; on every rank alike.
TEST(NativeExtras, TheNativeCallIsAloneAndComesWhenAllHaveMet) {
  const Range range{0, 10};
  for (const Algorithm& a : algorithms()) {
    if (is_point_to_point(a.collective)) continue;
    Shape s{.count = 5000,
            .ranks = 4,
            .chunk_policy = exact_chunks(3000),
            .packing = packing_for(a, test_packing(32)),
            .topology = round_robin(4, 2)};
    for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
      NativeExtras beside{.exact = {}, .verified = true};
      if (may_keep_exact(a.collective)) beside.exact = {&range, 1};
      const Plan plan = with(a.build(s), a.collective, s, beside);
      ASSERT_EQ(validate(plan, s), "") << print(plan);
      Order order;
      for (size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& step = plan.steps[i];
        if (i < 2) {
          ASSERT_EQ(step.natives.size(), 1u) << print(plan);
          EXPECT_TRUE(step.transfers.empty());
          EXPECT_EQ(step.natives[0].meets, i == 0);
          EXPECT_EQ(step.natives[0].recv.region, i == 0 ? Region::kScratch : Region::kExact);
        }
        EXPECT_EQ(order.is_done(0, step), i > 0) << print(plan);
        EXPECT_EQ(order.is_done(1, step), i > 1) << print(plan);
        order.add(step);
      }
    }
  }
}

TEST(NativeExtras, IsPrinted) {
  const Shape s{.count = 100, .ranks = 2, .rank = 1, .packing = test_packing(32)};
  const Range ranges[] = {{90, 20}};
  EXPECT_EQ(print(with(reduce_scatter(s), Collective::kReduceScatter, s,
                       {.exact = ranges, .verified = true})),
            R"(ReduceScatter: 8 steps, scratch 1872 B, wire 404 B, raw 400 B
  native collectives send 40 B
  0 meet on communicate 0
    native AllReduce scratch+0 <- scratch+0 x1 of uint32 max
  1 verify on communicate 0
    native ReduceScatter exact+0 <- send+0 x100
  2 pack on encode after 1
    scratch+1832 x40 B <- send+400 as it is
    scratch+1792 x40 B <- send+360 as it is
  3 native on communicate 0 after 2
    native ReduceScatter scratch+1832 <- scratch+1792 x10
  4 encode on encode after 3
    scratch+0 x100 <- send+0 raw [shard 0 stage 0 origin 0]
  5 exchange on communicate 0 after 4
    to 0 scratch+0 x404 B
    from 0 scratch+896 x404 B
  6 reduce on decode after 5
    recv+0 x100 <- scratch+896 send+400 raw final
  7 restore on decode
    recv+0 x40 B <- scratch+1832 as it is
)");
}

Plan learning(const Shape& s) {
  Plan plan = two_shot_all_reduce(s);
  plan.codebook_bytes = 192;
  return with(std::move(plan), Collective::kAllReduce, s, {.learns = true});
}

TEST(NativeExtras, LearningIsPrinted) {
  const Shape s{.count = 64, .ranks = 2, .packing = test_packing(32)};
  const std::string text = print(learning(s));
  EXPECT_EQ(text.substr(0, text.find("  7 ")),
            R"(two-shot AllReduce: 11 steps, scratch 8976 B, wire 264 B, raw 256 B
  native collectives send 8388 B
  keeps 192 B of levels
  0 learn on encode
    scratch+768 <- widest of send x64
  1 agree on communicate 0 after 0
    native AllReduce scratch+768 <- scratch+768 x1 of uint32 max
  2 learn on encode after 1
    scratch+768 <- histogram of send x64
  3 agree on communicate 0 after 2
    native AllReduce scratch+784 <- scratch+784 x1024 of uint64 sum
  4 learn on encode after 3
    codebook+0 <- levels of scratch+768
  5 agree on communicate 0 after 4
    native Broadcast codebook+0 <- codebook+0 x192 of uint8 root 0
  6 encode on encode after 5
    scratch+192 x32 <- send+128 raw [shard 1 stage 0 origin 0]
)");
}

// Else two steps could use the state or the levels at once.
TEST(NativeExtras, AMistakeInLearningIsFound) {
  const Shape s{.count = 64, .ranks = 2, .packing = test_packing(32)};
  const auto broken = [&](const auto& change) {
    Plan plan = learning(s);
    change(plan);
    return validate(plan, s);
  };
  EXPECT_EQ(broken([](Plan&) {}), "");
  EXPECT_EQ(broken([](Plan& p) { p.steps[2].after.clear(); }),
            "step 2 (learn): reads what may not be written yet");
  EXPECT_EQ(broken([](Plan& p) { p.steps[6].after.clear(); }),
            "step 6 (encode): reads what may not be written yet");
  EXPECT_EQ(broken([](Plan& p) { p.steps[0].learns[0].count = 65; }),
            "step 0 (learn): a place past its region");
  EXPECT_EQ(broken([](Plan& p) { p.steps[0].learns[0].state.offset += 8; }),
            "step 0 (learn): a place past its region");
  EXPECT_EQ(broken([](Plan& p) {
              p.steps[0].learns[0].state = {Region::kRecv, 0};
            }),
            "step 0 (learn): learns outside scratch");
  EXPECT_EQ(broken([](Plan& p) { p.codebook_bytes = 0; }),
            "step 0 (learn): learns levels that the call does not have");
  EXPECT_EQ(broken([](Plan& p) { std::swap(p.steps[1].learns, p.steps[0].learns); }),
            "step 1 (agree): levels are learned on a communicate lane");
  EXPECT_EQ(broken([](Plan& p) {
              p.steps[0].copies.push_back({{Region::kRecv, 0}, {Region::kSend, 0}, 4});
            }),
            "step 0 (learn): reads what may have been changed");
  EXPECT_EQ(broken([](Plan& p) { p.steps[6].compute[0].target.region = Region::kCodebook; }),
            "step 6 (encode): packed data outside scratch");
  EXPECT_EQ(broken([](Plan& p) {
              Compute& raw = p.steps[6].compute[0];
              raw.target = {Region::kCodebook, 0};
              raw.target_format = Format::kRaw;
            }),
            "step 6 (encode): computes with the levels");
}

}  // namespace
}  // namespace terse::plan
