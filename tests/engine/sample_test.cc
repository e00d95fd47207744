// The times of a call are those of its own steps, not of what NCCL does beside.
#include "engine/observe/sample.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "idle.h"
#include "plan/native_extras.h"

namespace terse::test {
namespace {

using plan::Lane;

// Marks are made when it says so.
class Clock final : public IdleBackend {
 public:
  void record(Event event, Stream) override { at_[event] = now; }
  std::optional<double> seconds(Event from, Event to) override {
    if (!at_.contains(from) || !at_.contains(to)) return {};
    return at_[to] - at_[from];
  }

  double now = 0;

 private:
  std::map<Event, double> at_;
};

// Two-shot, with elements that stay exact; step i takes 5 seconds, from 10 i on.
plan::Plan plan_beside(bool verified) {
  const plan::Shape shape{.count = 5000,
                          .ranks = 3,
                          .chunk_policy = plan::exact_chunks(3000),
                          .packing = {32, [](size_t n) { return n; }}};
  const plan::Range range{10, 20};
  return plan::with(plan::two_shot_all_reduce(shape), plan::Collective::kAllReduce, shape,
                    {.exact = {&range, 1}, .verified = verified});
}

void play(const plan::Plan& plan, Clock& clock, Sample& sample) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    clock.now = 10.0 * static_cast<double>(i);
    sample.before(i, nullptr);
    clock.now += 5;
    sample.after(i, nullptr);
  }
  sample.finish(nullptr);
}

TEST(Sample, TimesThePlansOwnStepsAlone) {
  const plan::Plan plan = plan_beside(false);
  ASSERT_TRUE(plan.steps.front().is_extra && plan.steps.back().is_extra);
  Clock clock;
  Sample sample(clock);
  sample.start(plan, {.metered = true});
  play(plan, clock, sample);
  std::map<Lane, double> own;
  for (const plan::Step& step : plan.steps)
    if (!step.is_extra) own[step.lane] += 5;
  EXPECT_FALSE(sample.native());
  const std::optional<PhaseTimes> times = sample.times();
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 10.0 * static_cast<double>(plan.steps.size() - 3) + 5);
  EXPECT_EQ(times->encode, own[Lane::kEncode]);
  EXPECT_EQ(times->communicate, own[Lane::kCommunicate]);
  EXPECT_EQ(times->decode, own[Lane::kDecode]);
}

// Its one step is neither to encode, to communicate nor to decode.
TEST(Sample, TimesAFusedCallAsAWhole) {
  const plan::Shape shape{
      .count = 5000, .ranks = 3, .packing = {32, [](size_t n) { return n; }}, .topology = {}};
  const plan::Plan fused =
      plan::with_windows(plan::one_shot_all_reduce(shape), plan::Fused{.algorithm = "one-shot"});
  Clock clock;
  Sample sample(clock);
  for (const bool is_fused : {true, false}) {
    const plan::Plan plan = is_fused ? fused : plan::one_shot_all_reduce(shape);
    sample.start(plan, {.metered = true});
    play(plan, clock, sample);
    const std::optional<PhaseTimes> times = sample.times();
    ASSERT_TRUE(times);
    EXPECT_EQ(times->fused, is_fused ? times->total : 0.0);
    EXPECT_EQ(times->encode + times->communicate + times->decode == 0, is_fused);
  }
}

// Of the steps before the plan's own, in which the ranks meet, call NCCL, and carry what is exact.
TEST(Sample, TimesTheNativeCallByItself) {
  const plan::Plan plan = plan_beside(true), without = plan_beside(false);
  ASSERT_EQ(plan.steps.size(), without.steps.size() + 2);
  for (const Wanted& wanted : {Wanted{.raced = true}, Wanted{.traced = true}}) {
    Clock clock;
    Sample sample(clock);
    sample.start(plan, wanted);
    play(plan, clock, sample);
    EXPECT_EQ(sample.native(), 5.0);
    EXPECT_EQ(sample.times()->total, 10.0 * static_cast<double>(without.steps.size() - 3) + 5);
  }
  Clock clock;
  Sample sample(clock);
  sample.start(plan, {.number = 1});
  play(plan, clock, sample);
  EXPECT_FALSE(sample.native()) << "nobody has asked for it";
}

TEST(Sample, SaysWhenEachStepWas) {
  const plan::Plan plan = plan_beside(true);
  Clock clock;
  const Event origin = clock.create_timer();
  clock.now = -100;
  clock.record(origin, nullptr);
  Sample sample(clock);
  sample.start(plan, {.traced = true});
  play(plan, clock, sample);
  const std::optional<CallTime> call = sample.since(origin);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->begin, 130.0);  // behind the three steps beside it
  EXPECT_EQ(call->end, 100 + 10.0 * static_cast<double>(plan.steps.size() - 2) + 5);
  EXPECT_EQ(call->left_out, 0u);
  ASSERT_EQ(call->steps.size(), plan.steps.size() - 3) << "but to meet, and what stays exact";
  EXPECT_EQ(call->steps[0].name, std::string("verify"));
  EXPECT_EQ(call->steps[0].begin, 110.0);
  EXPECT_EQ(call->steps[0].end, 115.0);
  EXPECT_EQ(call->steps[1].name, std::string(plan.steps[3].name));
  EXPECT_EQ(call->steps[1].queue, plan.steps[3].queue());
  EXPECT_EQ(call->steps[1].begin, 130.0);
}

// Of a call of very many chunks.
TEST(Sample, KeepsABoundedNumberOfSteps) {
  const plan::Shape shape{.count = 100'000,
                          .ranks = 3,
                          .chunk_policy = plan::exact_chunks(3000),
                          .packing = {32, [](size_t n) { return n; }}};
  const plan::Plan plan = plan::two_shot_all_reduce(shape);
  ASSERT_GT(plan.steps.size(), CallTime::kMaxSteps);
  Clock clock;
  const Event origin = clock.create_timer();
  clock.record(origin, nullptr);
  Sample sample(clock);
  sample.start(plan, {.traced = true});
  play(plan, clock, sample);
  const std::optional<CallTime> call = sample.since(origin);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->steps.size(), CallTime::kMaxSteps);
  EXPECT_EQ(call->left_out, plan.steps.size() - CallTime::kMaxSteps);
  EXPECT_EQ(call->end, 10.0 * static_cast<double>(plan.steps.size() - 1) + 5);
}

}  // namespace
}  // namespace terse::test
