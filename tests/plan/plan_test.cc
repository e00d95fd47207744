// Every algorithm, over random shapes, gives what the collective means, in any legal order of
// steps.
#include "plan/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "call_buffers.h"
#include "grids.h"
#include "meaning.h"
#include "plan/algorithms.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

// Messages have tests of their own, and what goes by the topology (hierarchical_test.cc).
std::vector<Algorithm> of_all_ranks() {
  std::vector<Algorithm> rows;
  for (const Algorithm& a : algorithms())
    if (!is_point_to_point(a.collective) && !needs_grid(a)) rows.push_back(a);
  return rows;
}

// Blocks of 128 and four bytes for each.
Packing int8() {
  return {128, [](size_t n) { return n + (n + 127) / 128 * 4; }};
}

class PlanTest : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(All, PlanTest, testing::ValuesIn(of_all_ranks()), [](const auto& p) {
  return fmt::format("{}_{}", name(p.param.collective), p.param.names.own);
});

Shape random_shape(const Algorithm& a, std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 3, 31, 32, 33, 97, 128, 1000, 4096, 10007};
  static constexpr ChunkPolicy kGrains[] = {
      kHostChunks,        exact_chunks(64),    exact_chunks(256), exact_chunks(1024),
      exact_chunks(4096), exact_chunks(65536), {300, 100, 5}};
  const int ranks = 2 + static_cast<int>(random() % 7);
  const Packing packing = packing_for(a, test_packing(32 * (1 + random() % 4)));
  return {.count = random() % 3 ? kCounts[random() % std::size(kCounts)] : 1 + random() % 5000,
          .element_bytes = 4,
          .ranks = ranks,
          .root = static_cast<int>(random() % ranks),
          .chunk_policy = kGrains[random() % std::size(kGrains)],
          .packing = packing,
          .sum = a.sharing == Sharing::kNone ? some_sum_format(packing, random) : SumFormat{}};
}

// What element `i` of rank r's result must be.
int32_t meaning(Collective collective, const std::vector<std::vector<int32_t>>& input,
                const Shape& s, size_t r, size_t i) {
  return Meaning{collective, input.size(), static_cast<size_t>(s.root), s.count}(
      r, i, [&](size_t rank, size_t element) { return input[rank][element]; }, std::plus<>());
}

std::vector<Plan> build_all(Plan (*build)(const Shape&), Shape shape) {
  std::vector<Plan> plans;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    plans.push_back(build(shape));
    EXPECT_EQ(validate(plans.back(), shape), "") << print(plans.back());
  }
  return plans;
}

TEST_P(PlanTest, ComputesTheCollectiveInAnyOrderOfSteps) {
  const Algorithm& a = GetParam();
  std::mt19937 random(7);
  for (int trial = 0; trial < test::trials(150, 37); ++trial) {
    const Shape shape = random_shape(a, random);
    const bool in_place = random() % 2;
    const CallBuffers b(a.collective, shape, in_place, random);
    const std::vector<Plan> plans = build_all(a.build, shape);
    ASSERT_EQ(simulate(plans, b.send, b.recv, random), "")
        << "count " << shape.count << " ranks " << shape.ranks << "\n"
        << print(plans[0]);
    for (size_t r = 0; r < plans.size(); ++r)
      for (size_t i = 0; i < b.results[r]; ++i)
        ASSERT_EQ(b.recv[r][i], meaning(a.collective, b.input, shape, r, i))
            << "rank " << r << " element " << i << " of " << shape.count << " root " << shape.root
            << (in_place ? " in place\n" : "\n") << print(plans[r]);
  }
}

// So that all ranks come to ask for more at the same call; a root may need more than the others.
TEST_P(PlanTest, WithoutARootEveryRankNeedsTheSameScratch) {
  const Algorithm& a = GetParam();
  if (traits(a.collective).rooted) return;
  for (const size_t count : {size_t{1}, size_t{127}, size_t{4099}, size_t{3'000'017}})
    for (const int ranks : {2, 3, 5, 8}) {
      Shape shape{.count = count,
                  .element_bytes = 2,
                  .ranks = ranks,
                  .rank = 0,
                  .packing = packing_for(a, int8())};
      const size_t first = a.build(shape).scratch_bytes;
      for (shape.rank = 1; shape.rank < ranks; ++shape.rank)
        EXPECT_EQ(a.build(shape).scratch_bytes, first) << count << " on " << shape.rank;
    }
}

// So that calls which go together stay in step: their transfers between two ranks are then in the
// same order on both. Also where some ranks own nothing.
TEST_P(PlanTest, WithoutARootEveryRankHasTheSameSteps) {
  const Algorithm& a = GetParam();
  if (traits(a.collective).rooted) return;
  for (const size_t count : {1, 2, 127, 129, 300, 1025, 4099, 70'001, 300'017})
    for (int ranks = 2; ranks <= 9; ++ranks)
      for (const ChunkPolicy& chunk_policy :
           {kHostChunks, exact_chunks(4096), exact_chunks(20'000)}) {
        Shape shape{.count = count,
                    .element_bytes = 4,
                    .ranks = ranks,
                    .rank = 0,
                    .chunk_policy = chunk_policy,
                    .packing = packing_for(a, int8())};
        const auto exchanges = [&] {
          std::vector<size_t> turns;
          for (const Step& step : a.build(shape).steps)
            if (step.lane == Lane::kCommunicate) turns.push_back(step.turn);
          return turns;
        };
        const std::vector<size_t> first = exchanges();
        for (shape.rank = 1; shape.rank < ranks; ++shape.rank)
          ASSERT_EQ(exchanges(), first) << count << " on " << shape.rank << " of " << ranks
                                        << ", chunks of " << chunk_policy.chunk_bytes;
      }
}

// On a GPU every exchange is a launch that other ranks wait for.
TEST(ChunkPolicy, SaysHowOftenRanksExchange) {
  const Packing packing{128, [](size_t n) { return n; }};  // a byte for each element of fp32
  const auto exchanges = [](const Plan& plan) {
    return std::ranges::count(plan.steps, Lane::kCommunicate, &Step::lane);
  };
  const auto all_reduce = [&](size_t bytes, int ranks, const ChunkPolicy& chunk_policy) {
    return exchanges(two_shot_all_reduce(
        {.count = bytes / 4, .ranks = ranks, .chunk_policy = chunk_policy, .packing = packing}));
  };
  constexpr size_t kMiB = 1 << 20;
  // A chunk's second shot goes together with a later one's first.
  EXPECT_EQ(all_reduce(31 * kMiB, 2, kHostChunks), 31 + 4);  // chunks of 1 MiB
  EXPECT_EQ(all_reduce(62 * kMiB, 8, kHostChunks), 31 + 4);  // of 2: 256 KiB a rank
  EXPECT_EQ(all_reduce(32 * kMiB, 2, kHostChunks), 16 + 4);  // many: twice as long
  EXPECT_EQ(all_reduce(64 * kMiB, 8, kHostChunks), 16 + 4);
  // Of what is sent as it is in smaller chunks: of 320 KiB, 160 KiB a rank.
  EXPECT_EQ(exchanges(two_shot_all_reduce({.count = 31 * 320 * 1024 / 4,
                                           .ranks = 2,
                                           .packing = {128, [](size_t n) { return 4 * n; }}})),
            31 + 4);
  // On GPUs their number grows with the square root.
  EXPECT_EQ(all_reduce(16 * kMiB, 8, kGpuChunks), 2);
  EXPECT_EQ(all_reduce(64 * kMiB, 2, kGpuChunks), 2 + 1);
  EXPECT_EQ(all_reduce(64 * kMiB, 8, kGpuChunks), 2 + 1);
  EXPECT_EQ(all_reduce(256 * kMiB, 8, kGpuChunks), 4 + 2);
  EXPECT_EQ(all_reduce(256 * kMiB, 64, kGpuChunks), 2 + 1);
  EXPECT_EQ(all_reduce(64 * kMiB, 64, kGpuChunks), 2);  // 1 MiB a rank
  EXPECT_EQ(all_reduce(64 * kMiB, 2, exact_chunks(64 * kMiB)), 2);
  const auto message = [&](size_t bytes, const ChunkPolicy& chunk_policy) {
    return exchanges(send({.count = bytes / 4,
                           .ranks = 2,
                           .root = 1,
                           .chunk_policy = chunk_policy,
                           .packing = packing}));
  };
  EXPECT_EQ(message(16 * kMiB, kHostChunks), 16);
  EXPECT_EQ(message(256 * kMiB, kHostChunks), 32);  // no more
  for (const size_t bytes :
       {size_t{4}, size_t{4000}, 16 * kMiB, 16 * kMiB + 4, size_t{999'999'996}})
    EXPECT_EQ(message(bytes, kGpuChunks), 1) << bytes;  // NCCL's kernels would wait between two
  EXPECT_EQ(message(256 * kMiB, exact_chunks(kMiB)), 256);
}

// The plan of a call that no memory holds, as by a count that is wrong, is no larger than others.
TEST_P(PlanTest, ChunksHaveAnEnd) {
  const Algorithm& a = GetParam();
  for (const size_t count : {size_t{4096} * 1024, size_t{1} << 30, size_t{1} << 45})
    for (const int ranks : {2, 3, 8}) {
      const Shape shape{.count = count,
                        .element_bytes = 4,
                        .ranks = ranks,
                        .rank = ranks - 1,
                        .chunk_policy = exact_chunks(4096),
                        .packing = packing_for(a, int8())};
      // In a ring a chunk takes a step for each rank.
      EXPECT_LE(a.build(shape).steps.size(), 4096u * (6 + ranks)) << count << " x " << ranks;
    }
}

TEST_P(PlanTest, ScratchStaysWithinThePackedMessageAndTwoChunks) {
  const Algorithm& a = GetParam();
  for (const size_t count : {size_t{1} << 18, size_t{3} << 20, (size_t{1} << 22) + 12345})
    for (const int ranks : {2, 3, 4, 8}) {
      const ChunkPolicy& chunk_policy = ranks % 2 == 0 ? kHostChunks : kGpuChunks;
      const Shape shape{.count = count,
                        .element_bytes = 4,
                        .ranks = ranks,
                        .rank = ranks - 1,
                        .chunk_policy = chunk_policy,
                        .packing = packing_for(a, int8())};
      const Plan plan = a.build(shape);
      const Traits& t = traits(a.collective);
      const size_t shards = t.send.per_rank || t.recv.per_rank ? ranks : 1;
      const size_t message = shape.packing.bytes(count * shards);
      const size_t raw_chunk = shape.chunk(count * shards, ranks) / 4;
      const size_t chunk = shape.packing.bytes(std::min(count * shards, raw_chunk));
      // Shards are rounded up to whole blocks and to 64 bytes.
      const size_t rounding = 8 * ranks * (shape.packing.bytes(128) + 64) * 2;
      EXPECT_LE(plan.scratch_bytes, message + 2 * chunk + rounding) << count << " x " << ranks;
    }
}

TEST(Plans, WireBytesAreThoseOfTheAlgorithm) {
  const Shape shape{.count = 4 * 1024,
                    .element_bytes = 4,
                    .ranks = 4,
                    .rank = 1,
                    .packing = {128, [](size_t n) { return n + n / 128 * 4; }}};
  const size_t packed = shape.packing.bytes(shape.count);
  EXPECT_EQ(two_shot_all_reduce(shape).wire_bytes, 2 * 3 * packed / 4);
  EXPECT_EQ(one_shot_all_reduce(shape).wire_bytes, 3 * packed);
  EXPECT_EQ(all_gather(shape).wire_bytes, 3 * packed);
  EXPECT_EQ(reduce_scatter(shape).wire_bytes, 3 * packed);
  EXPECT_EQ(two_shot_all_reduce(shape).raw_bytes, 2 * 3 * 4096);
  EXPECT_EQ(reduce_scatter(shape).raw_bytes, 3 * 4 * 4096);

  // Of the root, which is rank 1, and of the others.
  const auto wire = [&](Plan (*build)(const Shape&), int root, int rank = 1) {
    Shape s = shape;
    s.root = root;
    s.rank = rank;
    return build(s).wire_bytes;
  };
  EXPECT_EQ(all_to_all(shape).wire_bytes, 3 * packed);
  EXPECT_EQ(wire(direct_broadcast, 1), 3 * packed);
  EXPECT_EQ(wire(direct_broadcast, 0), 0u);
  Shape thirds = shape;
  thirds.count = 3 * 1024;
  thirds.root = 1;
  EXPECT_EQ(shared_broadcast(thirds).wire_bytes, packed * 3 / 4) << "one message";
  thirds.root = 0;
  EXPECT_EQ(shared_broadcast(thirds).wire_bytes, 2 * packed / 4) << "a third to two others";
  EXPECT_EQ(wire(direct_reduce, 1), 0u);
  EXPECT_EQ(wire(direct_reduce, 0), packed);
  EXPECT_EQ(wire(two_shot_reduce, 1), 3 * packed / 4);
  EXPECT_EQ(wire(two_shot_reduce, 0), packed);
  EXPECT_EQ(wire(gather, 1), 0u);
  EXPECT_EQ(wire(gather, 0), packed);
  EXPECT_EQ(wire(scatter, 1), 3 * packed);
  EXPECT_EQ(wire(scatter, 0), 0u);
  EXPECT_EQ(wire(send, 0), packed);
  EXPECT_EQ(wire(receive, 0), 0u);
}

TEST(Plans, RawBytesAreThoseOfNccl) {
  const auto raw = [](Collective c, int rank, int root) {
    return raw_bytes(c, 1000, {.ranks = 4, .rank = rank, .root = root});
  };
  EXPECT_EQ(raw(Collective::kAllReduce, 0, 0), 1500u);
  EXPECT_EQ(raw(Collective::kAllGather, 0, 0), 3000u);
  EXPECT_EQ(raw(Collective::kReduceScatter, 0, 0), 3000u);
  EXPECT_EQ(raw(Collective::kAllToAll, 0, 0), 3000u);
  EXPECT_EQ(raw(Collective::kBroadcast, 2, 2), 1000u);
  EXPECT_EQ(raw(Collective::kBroadcast, 1, 2), 0u) << "the last of the chain";
  EXPECT_EQ(raw(Collective::kReduce, 2, 2), 0u);
  EXPECT_EQ(raw(Collective::kReduce, 1, 2), 1000u);
  EXPECT_EQ(raw(Collective::kGather, 2, 2), 0u);
  EXPECT_EQ(raw(Collective::kGather, 1, 2), 1000u);
  EXPECT_EQ(raw(Collective::kScatter, 2, 2), 3000u);
  EXPECT_EQ(raw(Collective::kScatter, 1, 2), 0u);
  EXPECT_EQ(raw(Collective::kSend, 1, 2), 1000u);
  EXPECT_EQ(raw(Collective::kSend, 1, 1), 0u) << "to itself";
  EXPECT_EQ(raw(Collective::kRecv, 1, 2), 0u);
}

TEST(Plans, ValidateFindsWhatIsWrong) {
  const Shape shape{.count = 1000, .ranks = 3, .rank = 1, .packing = test_packing(32)};
  const Plan good = two_shot_all_reduce(shape);
  ASSERT_EQ(validate(good, shape), "");
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan);
    return validate(plan, shape);
  };
  EXPECT_NE(broken([](Plan& p) { p.scratch_bytes -= 64; }), "");
  EXPECT_NE(broken([](Plan& p) { p.buffers[0].recv_bytes -= 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].after = {1}; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute.clear(); }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute[0].target.region = Region::kSend; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].peer = 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].bytes += 4; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].turn = kCommunicateLanes; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].turn = 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps.pop_back(); }), "");
  EXPECT_NE(broken([](Plan& p) { p.buffers.push_back({}); }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute[0].message = 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].message = 1; }), "");
  const auto with_copy = [&](const Copy& copy) {
    return broken([&](Plan& p) { p.steps[0].copies.push_back(copy); });
  };
  const Place in{Region::kSend, 0}, out{Region::kRecv, 0};
  EXPECT_EQ(with_copy({out, in, 4000}), "");
  EXPECT_NE(with_copy({out, in, 4001}), "");
  EXPECT_NE(with_copy({in, out, 4}), "");
  EXPECT_NE(with_copy({{Region::kScratch, 0}, in, 4}), "");
}

TEST(Plans, ValidateFindsWhatIsWrongWithPartsOfASharedGrid) {
  const Packing plain = test_packing(32);
  Shape shape{.count = 1000, .ranks = 3, .rank = 1};
  shape.packing = packing_for({.sharing = Sharing::kSummed}, plain);
  const Plan good = summed_reduce_scatter(shape);
  ASSERT_EQ(validate(good, shape), "");
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan);
    return validate(plan, shape);
  };
  const auto says = [&](const char* what, auto change) {
    EXPECT_NE(broken(change).find(what), std::string::npos) << broken(change);
  };
  ASSERT_STREQ(good.steps[2].name, "pack");
  says("parameters within the codes", [](Plan& p) { p.steps[0].compute[2].params_offset = 3996; });
  says("or that are not aligned", [](Plan& p) { p.steps[0].compute[2].params_offset += 2; });
  says("reads scratch that nothing wrote", [](Plan& p) { p.steps[0].compute.pop_back(); });
  says("reads scratch that nothing wrote", [](Plan& p) { p.steps[2].compute.pop_back(); });
  says("reads scratch that nothing wrote", [](Plan& p) { ++p.steps[1].natives[0].count; });
  says("a part of what is not packed",
       [](Plan& p) { p.steps[0].compute[0].target_format = Format::kRaw; });
  says("merges codes that are not merged",
       [](Plan& p) { p.steps[2].compute[0].part = Part::kMerged; });
  shape.packing = plain;
  says("of a grid that is not shared", [](Plan&) {});
}

TEST(Plans, ValidateFindsWhatIsWrongWithMerges) {
  Shape shape{.count = 1000, .ranks = 3, .rank = 1};
  shape.packing = packing_for({.sharing = Sharing::kMerged}, test_packing(32));
  const Plan good = merged_reduce_scatter(shape);
  ASSERT_EQ(validate(good, shape), "");
  const auto says = [&](const char* what, auto change) {
    Plan plan = good;
    change(plan);
    const std::string wrong = validate(plan, shape);
    EXPECT_NE(wrong.find(what), std::string::npos) << wrong;
  };
  ASSERT_STREQ(good.steps[4].name, "merge");
  const auto merge = [](Plan& p) -> Compute& { return p.steps[4].compute[0]; };
  says("merges what is not packed", [&](Plan& p) {
    merge(p).inputs[0] = {{Region::kSend, 0}, Format::kRaw};
  });
  says("a part of what is not packed", [&](Plan& p) { merge(p).target_format = Format::kRaw; });
  says("reads scratch that nothing wrote", [](Plan& p) { p.steps[3].transfers.pop_back(); });
  says("writes what may still be in use",
       [&](Plan& p) { merge(p).target = merge(p).inputs[2].place; });
}

// Without any one of its dependencies a plan is wrong, and validate says so.
void expect_every_dependency_seen(const Plan& good, const Shape& shape) {
  ASSERT_EQ(validate(good, shape), "");
  size_t dependencies = 0;
  for (size_t i = 0; i < good.steps.size(); ++i)
    for (size_t k = 0; k < good.steps[i].after.size(); ++k, ++dependencies) {
      Plan plan = good;
      plan.steps[i].after.erase(plan.steps[i].after.begin() + static_cast<ptrdiff_t>(k));
      EXPECT_NE(validate(plan, shape), "")
          << "step " << i << " without " << good.steps[i].after[k] << "\n"
          << print(good);
    }
  EXPECT_GT(dependencies, good.steps.size() / 3);
}

TEST_P(PlanTest, ValidateSeesEveryMissingDependency) {
  const bool shares = GetParam().sharing != Sharing::kNone;
  const SumFormat kFormats[] = {
      {}, {Format::kSumPacked, test_packing(32), true}, {Format::kSumPacked, test_packing(32, 20)}};
  for (const SumFormat& sum : kFormats) {
    Shape shape{.count = 1000,
                .ranks = 3,
                .root = 1,
                .chunk_policy = exact_chunks(256),
                .packing = packing_for(GetParam(), test_packing(32)),
                .sum = shares ? SumFormat{} : sum};
    for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
      expect_every_dependency_seen(GetParam().build(shape), shape);
  }
}

// The second shot of a rank that has nothing to reduce: it receives where the first shot sent from.
TEST(Plans, SimulatorSeesAMissingDependencyBetweenExchanges) {
  const Shape shape{.count = 64, .ranks = 3, .packing = test_packing(32)};
  std::vector<Plan> plans = build_all(two_shot_all_reduce, shape);
  const auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<int32_t>> input(3), output(3, std::vector<int32_t>(64));
    for (auto& v : input)
      for (int i = 0; i < 64; ++i) v.push_back(static_cast<int32_t>(random() % 1000));
    return simulate(plans, {input[0].data(), input[1].data(), input[2].data()},
                    {output[0].data(), output[1].data(), output[2].data()}, random);
  };
  for (unsigned seed = 0; seed < 100; ++seed) ASSERT_EQ(run(seed), "");

  Plan& last = plans[2];  // its shard is empty
  ASSERT_STREQ(last.steps[2].name, "share") << print(last);
  ASSERT_EQ(last.steps[2].after, std::vector<size_t>{1}) << print(last);
  last.steps[2].after.clear();
  bool found = false;
  for (unsigned seed = 0; seed < 100 && !found; ++seed)
    found = run(seed) == "rank 2 changes what step 1 sends";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace terse::plan
