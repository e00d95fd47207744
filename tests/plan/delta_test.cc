// AllGathers of differences: what is held after each of several calls, whatever the algorithm, the
// topology and the order of steps.
#include "plan/delta.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "grids.h"
#include "plan/native_extras.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

using Values = std::vector<int32_t>;

constexpr int32_t kLoss = 1000;  // of each quantization

struct Case {
  const Algorithm& algorithm;
  Shape shape;  // of rank 0
  Delta delta;
  std::vector<Range> exact;
  bool in_place;
};

// One rank's memory, from call to call.
struct Rank {
  Values send, recv, state;
};

class Player {
 public:
  Player(Case the_case, std::mt19937& random) : c_(std::move(the_case)), random_(random) {
    const Shape& s = c_.shape;
    for (int r = 0; r < s.ranks; ++r)
      ranks_.push_back({Values(s.count), Values(s.ranks * s.count, -1),
                        Values(shadow_bytes(c_.delta.base, s.ranks, 4 * s.count) / 4, -1)});
  }

  // What others then have of each rank is its weights less `loss`, but for what is exact.
  void call(Gathers gathers, int32_t loss) {
    if (gathers != Gathers::kNothing) change();
    c_.delta.gathers = gathers;
    std::vector<Plan> plans;
    std::vector<std::vector<Memory>> memory;
    Shape s = c_.shape;
    for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
      plans.push_back(plan_of(s));
      Rank& rank = ranks_[s.rank];
      std::ranges::copy(weights_[s.rank], own(s.rank));
      memory.push_back({{own(s.rank), rank.recv.data(), nullptr, rank.state.data()}});
    }
    ASSERT_EQ(simulate(plans, memory, random_, kLoss), "") << print(plans[0]);
    expect(loss);
  }

 private:
  Plan plan_of(const Shape& s) const {
    Plan plan = build(c_.algorithm, s, c_.delta);
    if (c_.delta.gathers == Gathers::kDifferences || c_.delta.gathers == Gathers::kAsUsual) {
      plan = with(std::move(plan), Collective::kAllGather, s, {.exact = c_.exact});
      shadow_what_stays_exact(plan, s, c_.delta);
    }
    EXPECT_EQ(validate(plan, s), "") << print(plan);
    return plan;
  }

  int32_t* own(int rank) {
    return c_.in_place ? ranks_[rank].recv.data() + rank * c_.shape.count
                       : ranks_[rank].send.data();
  }

  void change() {
    weights_.assign(c_.shape.ranks, Values(c_.shape.count));
    for (Values& w : weights_)
      for (int32_t& x : w) x = static_cast<int32_t>(random_() % 1000);
  }

  void expect(int32_t loss) const {
    const size_t count = c_.shape.count;
    for (size_t r = 0; r < ranks_.size(); ++r)
      for (size_t i = 0; i < ranks_[r].recv.size(); ++i) {
        const size_t shard = i / count;
        const bool own = shard == r && c_.delta.own_exact;
        const bool exact = std::ranges::any_of(
            c_.exact, [&](const Range& e) { return i >= e.first && i - e.first < e.count; });
        ASSERT_EQ(ranks_[r].recv[i], weights_[shard][i % count] - (own || exact ? 0 : loss))
            << "rank " << r << " element " << i << " of " << count;
      }
  }

  Case c_;
  std::mt19937& random_;
  std::vector<Rank> ranks_;
  std::vector<Values> weights_;
};

Case some_case(const Algorithm& a, std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 31, 97, 1000, 4096};
  const int ranks = 2 + static_cast<int>(random() % 7);
  Case c{a,
         {.count = kCounts[random() % std::size(kCounts)],
          .ranks = ranks,
          .chunk_policy = exact_chunks(size_t{256} << random() % 8),
          .packing = test_packing(32),
          .topology = round_robin(ranks, ranks % 2 == 0 ? 2 : 1)},
         {.base = random() % 2 ? Base::kInplace : Base::kShadow, .own_exact = random() % 2 == 0},
         {},
         random() % 2 == 0};
  const size_t whole = c.shape.ranks * c.shape.count, first = random() % whole;
  if (random() % 2) c.exact = {{first, 1 + random() % (whole - first)}};
  return c;
}

TEST(Delta, WhatIsHeldIsWhatWasSentLast) {
  std::mt19937 random(3);
  for (const Algorithm& a : algorithms()) {
    if (a.collective != Collective::kAllGather) continue;
    for (int trial = 0; trial < test::trials(80, 20); ++trial) {
      const Case c = some_case(a, random);
      if (!a.applies(c.shape, Algo{}).applies) continue;
      SCOPED_TRACE(fmt::format("{} {} ranks {} count {}{}{}{}", a.names.own, trial, c.shape.ranks,
                               c.shape.count, c.delta.base == Base::kShadow ? " shadow" : "",
                               c.in_place ? " in place" : "", c.delta.own_exact ? "" : " own"));
      Player player(c, random);
      player.call(Gathers::kInFull, 0);
      player.call(Gathers::kNothing, 0);
      for (int call = 0; call < 3; ++call) player.call(Gathers::kDifferences, kLoss);
      player.call(Gathers::kNothing, kLoss);
      player.call(Gathers::kInFull, 0);
      player.call(Gathers::kDifferences, kLoss);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Without a base the own shard is what the others have of it, or as it is.
TEST(Delta, WithoutABaseOwnShardsMayStayAsTheyAre) {
  std::mt19937 random(4);
  for (const Algorithm& a : algorithms()) {
    if (a.collective != Collective::kAllGather) continue;
    for (int trial = 0; trial < test::trials(80, 20); ++trial) {
      Case c = some_case(a, random);
      c.delta.base = Base::kNone;
      if (!a.applies(c.shape, Algo{}).applies) continue;
      SCOPED_TRACE(fmt::format("{} {} ranks {} count {}{}{}", a.names.own, trial, c.shape.ranks,
                               c.shape.count, c.in_place ? " in place" : "",
                               c.delta.own_exact ? "" : " own"));
      Player player(c, random);
      for (int call = 0; call < 2; ++call) player.call(Gathers::kAsUsual, kLoss);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(Delta, SendsAsManyBytesAsThePlanItIsMadeOf) {
  const Shape s{.count = 5000, .ranks = 4, .packing = test_packing(32)};
  const Plan plain = all_gather(s);
  const Algorithm& a = *select(Collective::kAllGather, s, Algo{}).algorithm;
  const Plan differences = build(a, s, {Base::kInplace, Gathers::kDifferences});
  EXPECT_EQ(differences.wire_bytes, plain.wire_bytes);
  EXPECT_EQ(differences.raw_bytes, plain.raw_bytes);
  EXPECT_EQ(build(a, s, {Base::kInplace, Gathers::kInFull}).sent_bytes(), plain.raw_bytes);
  EXPECT_EQ(build(a, s, {Base::kInplace, Gathers::kNothing}).sent_bytes(), 0u);
}

TEST(Delta, ValidateFindsWhatIsWrong) {
  const Shape s{.count = 100, .ranks = 2, .rank = 1, .packing = test_packing(32)};
  const Algorithm& a = *select(Collective::kAllGather, s, Algo{}).algorithm;
  Plan plan = build(a, s, {Base::kInplace, Gathers::kDifferences});
  ASSERT_EQ(validate(plan, s), "");
  plan.steps[2].compute[0].inputs[1].negated = true;
  EXPECT_EQ(validate(plan, s), "step 2 (decode): takes away what is packed");
  plan = build(a, s, {Base::kInplace, Gathers::kInFull});
  ASSERT_EQ(validate(plan, s), "");
  plan.steps[0].natives[0].recv.offset = 4;
  EXPECT_EQ(validate(plan, s).substr(0, 16), "step 0 (gather):");
}

TEST(Delta, IsPrinted) {
  const Shape s{.count = 64, .ranks = 2, .rank = 1, .packing = test_packing(32)};
  const Algorithm& a = *select(Collective::kAllGather, s, Algo{}).algorithm;
  EXPECT_EQ(print(build(a, s, {Base::kInplace, Gathers::kDifferences, true})),
            R"(AllGather: 4 steps, scratch 640 B, wire 260 B, raw 256 B
  keeps 256 B, "shadow of a shard"
  0 encode on encode
    scratch+320 x64 <- send+0 raw -state+0 raw [shard 1 stage 0 origin 0]
  1 share on communicate 0 after 0
    to 0 scratch+320 x260 B
    from 0 scratch+0 x260 B
  2 decode on decode after 1
    recv+0 x64 <- recv+0 raw scratch+0
    state+0 x64 <- state+0 raw scratch+320
  3 give on decode
    recv+256 x256 B <- send+0 as it is
)");
}

}  // namespace
}  // namespace terse::plan
