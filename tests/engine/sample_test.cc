// The times of a call are those of its own steps, not of what NCCL does beside.
#include "engine/observe/sample.h"

#include <gtest/gtest.h>

#include <map>

#include "idle.h"
#include "plan/beside.h"

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

TEST(Sample, TimesThePlansOwnStepsAlone) {
  const plan::Shape shape{.count = 5000,
                          .ranks = 3,
                          .grain = plan::exact_grain(3000),
                          .packing = {32, [](size_t n) { return n; }}};
  const plan::Range range{10, 20};
  const plan::Plan plan = plan::with(plan::two_shot_all_reduce(shape), plan::Collective::kAllReduce,
                                     shape, {.exact = {&range, 1}});
  ASSERT_TRUE(plan.steps.front().beside && plan.steps.back().beside);
  Clock clock;
  Sample sample(clock);
  sample.start(plan, true, false);
  // Each step takes 5 seconds of 10.
  std::map<Lane, double> own;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    clock.now = 10.0 * static_cast<double>(i);
    sample.before(i, nullptr);
    clock.now += 5;
    sample.after(i, nullptr);
    if (!plan.steps[i].beside) own[plan.steps[i].lane] += 5;
  }
  sample.finish(nullptr);
  const std::optional<PhaseTimes> times = sample.times();
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 10.0 * static_cast<double>(plan.steps.size() - 3) + 5);
  EXPECT_EQ(times->encode, own[Lane::kEncode]);
  EXPECT_EQ(times->communicate, own[Lane::kCommunicate]);
  EXPECT_EQ(times->decode, own[Lane::kDecode]);
}

}  // namespace
}  // namespace terse::test
