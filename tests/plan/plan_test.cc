// Every algorithm, over random shapes, gives what the collective means, in any legal order of
// steps.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include "plan/select.h"
#include "simulator.h"

namespace terse::plan {
namespace {

struct Algorithm {
  const char* name;
  Plan (*build)(const Shape&);
  Collective collective;
};

constexpr Algorithm kAlgorithms[] = {
    {"OneShot", one_shot_all_reduce, Collective::kAllReduce},
    {"TwoShot", two_shot_all_reduce, Collective::kAllReduce},
    {"AllGather", all_gather, Collective::kAllGather},
    {"ReduceScatter", reduce_scatter, Collective::kReduceScatter},
};

class PlanTest : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(All, PlanTest, testing::ValuesIn(kAlgorithms),
                         [](const auto& p) { return p.param.name; });

Shape random_shape(std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 3, 31, 32, 33, 97, 128, 1000, 4096, 10007};
  static constexpr size_t kChunks[] = {0, 64, 256, 1024, 4096, 65536};
  return {.count = random() % 3 ? kCounts[random() % std::size(kCounts)] : 1 + random() % 5000,
          .element_bytes = 4,
          .ranks = 2 + static_cast<int>(random() % 7),
          .chunk_bytes = kChunks[random() % std::size(kChunks)],
          .packing = test_packing(32 * (1 + random() % 4))};
}

std::vector<Plan> build(const Algorithm& a, Shape shape) {
  std::vector<Plan> plans;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    plans.push_back(a.build(shape));
    EXPECT_EQ(validate(plans.back(), shape), "") << print(plans.back());
  }
  return plans;
}

TEST_P(PlanTest, ComputesTheCollectiveInAnyOrderOfSteps) {
  const Algorithm& a = GetParam();
  std::mt19937 random(7);
  for (int trial = 0; trial < 150; ++trial) {
    const Shape shape = random_shape(random);
    const size_t n = shape.ranks, count = shape.count;
    const size_t in = a.collective == Collective::kReduceScatter ? n * count : count;
    const size_t out = a.collective == Collective::kAllGather ? n * count : count;
    const bool in_place = random() % 2;

    std::vector<std::vector<int32_t>> input(n, std::vector<int32_t>(in));
    for (auto& v : input)
      for (int32_t& x : v) x = static_cast<int32_t>(random() % 1000);
    // In place the larger buffer holds the smaller one, at the rank's own part.
    std::vector<std::vector<int32_t>> memory(n), output(n, std::vector<int32_t>(out, -1));
    std::vector<const int32_t*> send(n);
    std::vector<int32_t*> recv(n);
    for (size_t r = 0; r < n; ++r) {
      memory[r] = input[r];
      send[r] = memory[r].data();
      recv[r] = output[r].data();
      if (!in_place) continue;
      if (a.collective == Collective::kAllGather) {
        std::copy(input[r].begin(), input[r].end(), recv[r] + r * count);
        send[r] = recv[r] + r * count;
      } else {
        recv[r] = memory[r].data() + (a.collective == Collective::kReduceScatter ? r * count : 0);
      }
    }

    const std::vector<Plan> plans = build(a, shape);
    ASSERT_EQ(simulate(plans, send, recv, random), "")
        << "count " << count << " ranks " << n << "\n"
        << print(plans[0]);
    for (size_t r = 0; r < n; ++r)
      for (size_t i = 0; i < out; ++i) {
        int32_t expected = 0;
        if (a.collective == Collective::kAllGather) {
          expected = input[i / count][i % count];
        } else {
          const size_t from = a.collective == Collective::kReduceScatter ? r * count + i : i;
          for (const auto& v : input) expected += v[from];
        }
        ASSERT_EQ(recv[r][i], expected) << "rank " << r << " element " << i << " of " << count
                                        << (in_place ? " in place\n" : "\n") << print(plans[r]);
      }
  }
}

TEST_P(PlanTest, ScratchStaysWithinThePackedMessageAndTwoChunks) {
  const Algorithm& a = GetParam();
  for (const size_t count : {size_t{1} << 18, size_t{3} << 20, (size_t{1} << 22) + 12345})
    for (const int ranks : {2, 3, 4, 8}) {
      const Shape shape{.count = count,
                        .element_bytes = 4,
                        .ranks = ranks,
                        .rank = ranks - 1,
                        .packing = {128, [](size_t n) { return n + (n + 127) / 128 * 4; }}};
      const Plan plan = a.build(shape);
      const size_t pieces = a.collective == Collective::kAllReduce ? 1 : ranks;
      const size_t message = shape.packing.bytes(count * pieces);
      const size_t raw_chunk = std::max(size_t{1} << 20, ranks * (size_t{256} << 10)) / 4;
      const size_t chunk = shape.packing.bytes(std::min(count * pieces, raw_chunk));
      // Pieces are rounded up to whole blocks and to 64 bytes.
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
  EXPECT_NE(broken([](Plan& p) { p.recv_bytes -= 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].after = {1}; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute.clear(); }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute[0].target.region = Region::kSend; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].peer = 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].bytes += 4; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].turn = kCommunicateLanes; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[0].turn = 1; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps.pop_back(); }), "");
}

// Without any one of its dependencies a plan is wrong, and validate says so.
TEST_P(PlanTest, ValidateSeesEveryMissingDependency) {
  Shape shape{.count = 1000, .ranks = 3, .chunk_bytes = 256, .packing = test_packing(32)};
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    const Plan good = GetParam().build(shape);
    size_t dependencies = 0;
    for (size_t i = 0; i < good.steps.size(); ++i)
      for (size_t k = 0; k < good.steps[i].after.size(); ++k, ++dependencies) {
        Plan plan = good;
        plan.steps[i].after.erase(plan.steps[i].after.begin() + static_cast<ptrdiff_t>(k));
        EXPECT_NE(validate(plan, shape), "")
            << "step " << i << " without " << good.steps[i].after[k] << "\n"
            << print(good);
      }
    EXPECT_GT(dependencies, good.steps.size() / 2);
  }
}

// The second shot of a rank that has nothing to reduce: it receives where the first shot sent from.
TEST(Plans, SimulatorSeesAMissingDependencyBetweenExchanges) {
  const Shape shape{.count = 64, .ranks = 3, .packing = test_packing(32)};
  std::vector<Plan> plans = build({"", two_shot_all_reduce, Collective::kAllReduce}, shape);
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

TEST(Select, TwoRanksAndSmallMessagesGoInOneShot) {
  Shape shape{.count = 1 << 20, .ranks = 4, .packing = test_packing(32)};
  const auto algorithm = [&](Wish wish) {
    return std::string(select(Collective::kAllReduce, shape, wish).build(shape).algorithm);
  };
  EXPECT_EQ(algorithm(Wish::kAuto), "two-shot AllReduce");
  EXPECT_EQ(algorithm(Wish::kOneShot), "one-shot AllReduce");
  shape.count = 1000;
  EXPECT_EQ(algorithm(Wish::kAuto), "one-shot AllReduce");
  EXPECT_EQ(algorithm(Wish::kTwoShot), "two-shot AllReduce");
  shape = {.count = 1 << 20, .ranks = 2, .packing = test_packing(32)};
  EXPECT_EQ(algorithm(Wish::kAuto), "one-shot AllReduce");
}

}  // namespace
}  // namespace terse::plan
