// Ranks compare their calls before a plan gives anything to its caller.
#include "plan/headers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "grids.h"
#include "plan/algorithms.h"
#include "plan/chunks.h"
#include "plan/delta.h"
#include "simulator.h"

namespace terse::plan {
namespace {

Shape shape_of(size_t count, int ranks, const Algorithm& algorithm) {
  Shape s{.count = count, .ranks = ranks, .packing = packing_for(algorithm, test_packing(32))};
  s.topology = round_robin(ranks, 2);
  return s;
}

// Its messages with a peer, in order.
std::vector<Transfer> between(const Plan& plan, int peer, bool sent) {
  std::vector<Transfer> all;
  for (const Step& step : plan.steps)
    for (const Transfer& t : step.transfers)
      if (t.peer == peer && t.send == sent) all.push_back(t);
  return all;
}

// Whether a step starts behind another one, by its lane or what it waits for.
bool waits_for(const Plan& plan, size_t step, size_t before) {
  std::vector<size_t> open = plan.steps[step].after;
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (i == before) return true;
    open.insert(open.end(), plan.steps[i].after.begin(), plan.steps[i].after.end());
    for (size_t k = i; k-- > 0;)  // behind those on its lane
      if (plan.steps[k].queue() == plan.steps[i].queue()) {
        open.push_back(k);
        break;
      }
  }
  return false;
}

TEST(Headers, GoAheadOfTheFirstMessageToEachPeer) {
  const Shape s{.count = 4096, .ranks = 3, .packing = test_packing(32)};
  const Plan plan = with_headers(two_shot_all_reduce(s), s);
  ASSERT_EQ(validate(plan, s), "") << print(plan);
  for (const int peer : {1, 2})
    for (const bool sent : {false, true}) {
      const std::vector<Transfer> all = between(plan, peer, sent);
      ASSERT_GT(all.size(), 1u);
      EXPECT_TRUE(all.front().header);
      EXPECT_EQ(all.front().bytes, kHeaderBytes);
      EXPECT_EQ(std::ranges::count(all, true, &Transfer::header), 1);
    }
  EXPECT_EQ(plan.wire_bytes, two_shot_all_reduce(s).wire_bytes) << "they are not counted";
}

// A rank that has found another call says so to those that it meets later: in levels all ranks hear
// of it before any has a result.
TEST(Headers, GoOutBehindTheChecksOfThoseReceivedBefore) {
  for (const Algorithm& algorithm : algorithms()) {
    if (is_point_to_point(algorithm.collective) || !needs_grid(algorithm)) continue;
    Shape s = shape_of(5000, 8, algorithm);
    s.topology = round_robin(8, 4);
    for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
      const Plan plan = with_headers(algorithm.build(s), s);
      size_t checked = kNone;
      for (size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& step = plan.steps[i];
        const bool has_header = std::ranges::any_of(step.transfers, &Transfer::header);
        if (has_header && checked != kNone)
          EXPECT_TRUE(std::ranges::count(step.after, checked) != 0 || waits_for(plan, i, checked))
              << print(plan);
        if (step.header && step.header->stage == Header::Stage::kCheck) checked = i;
      }
    }
  }
}

// Both ends have one, or neither; and of calls that all ranks make alike each rank has as much
// scratch.
TEST(Headers, MatchInEveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    for (const int ranks : {2, 4})
      for (const size_t count : {size_t{40}, size_t{5000}}) {
        Shape s = shape_of(count, ranks, algorithm);
        if (!is_for(algorithm, algorithm.collective, s) ||
            !algorithm.applies(s, *find_algo(algorithm.names.own)).applies)
          continue;
        std::vector<Plan> plans;
        for (s.rank = 0; s.rank < ranks; ++s.rank) {
          plans.push_back(with_headers(algorithm.build(s), s));
          EXPECT_EQ(validate(plans.back(), s), "") << print(plans.back());
        }
        const auto agrees = [](const Plan& plan) {
          return std::ranges::any_of(plan.steps, [](const Step& step) {
            return std::ranges::count(step.natives, true, &Native::header) != 0;
          });
        };
        for (int from = 0; from < ranks; ++from) {
          EXPECT_EQ(agrees(plans[from]), agrees(plans[0])) << print(plans[from]);
          for (int to = 0; to < ranks; ++to) {
            const auto sent = between(plans[from], to, true);
            const auto received = between(plans[to], from, false);
            ASSERT_EQ(sent.size(), received.size());
            for (size_t i = 0; i < sent.size(); ++i)
              EXPECT_EQ(sent[i].header, received[i].header) << print(plans[from]);
            if (!sent.empty() && !agrees(plans[0])) EXPECT_TRUE(sent[0].header);
          }
        }
      }
  }
}

TEST(Headers, ComeBeforeWhatTheRankKeeps) {
  const Shape s{.count = 4096, .ranks = 2, .packing = test_packing(32)};
  const Plan plan = with_headers(all_to_all(s), s);
  ASSERT_EQ(validate(plan, s), "") << print(plan);
  const auto checks = [](const Step& step) {
    return step.header && step.header->stage == Header::Stage::kCheck;
  };
  const auto check = std::ranges::find_if(plan.steps, checks);
  const auto keep =
      std::ranges::find_if(plan.steps, [](const Step& s) { return !s.copies.empty(); });
  ASSERT_NE(check, plan.steps.end());
  ASSERT_NE(keep, plan.steps.end());
  EXPECT_LT(check, keep);
}

TEST(Headers, AreCheckedBeforeAnythingIsGiven) {
  const Shape s{.count = 4096, .ranks = 2, .packing = test_packing(32)};
  Plan plan = with_headers(all_gather(s), s);
  for (Step& step : plan.steps)
    if (step.header && step.header->stage == Header::Stage::kCheck) step.header.reset();
  EXPECT_NE(validate(plan, s).find("gives what may be of another call"), std::string::npos);
}

TEST(Headers, AreNotForPlansThatPackNothing) {
  const Shape s{.count = 4096, .ranks = 2, .packing = test_packing(32)};
  const Algorithm& gather = *select(Collective::kAllGather, s, Algo{}).algorithm;
  const Plan plan = build(gather, s, {.base = Base::kInplace, .gathers = Gathers::kInFull});
  EXPECT_EQ(print(with_headers(plan, s)), print(plan));
}

}  // namespace
}  // namespace terse::plan
