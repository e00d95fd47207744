// Plans that keep something from call to call.
#include <gtest/gtest.h>

#include "plan/native_extras.h"
#include "running_sum.h"
#include "simulator.h"

namespace terse::plan {
namespace {

Shape shape_of(size_t count, int ranks) {
  return {.count = count, .ranks = ranks, .packing = test_packing(32)};
}

TEST(State, IsThereInTheNextCall) {
  constexpr int kRanks = 3, kCount = 50;
  std::mt19937 random(2);
  const Shape shape = shape_of(kCount, kRanks);
  const std::vector<Plan> plans(kRanks, running_sum(shape));
  ASSERT_EQ(validate(plans[0], shape), "") << print(plans[0]);
  std::vector<std::vector<int32_t>> state(kRanks, std::vector<int32_t>(2 * kCount));
  std::vector<int32_t> so_far(kCount);
  for (int call = 0; call < 20; ++call) {
    std::vector<std::vector<int32_t>> data(kRanks, std::vector<int32_t>(kCount));
    std::vector<std::vector<Memory>> memory;
    for (size_t r = 0; r < kRanks; ++r) {
      for (size_t i = 0; i < kCount; ++i)
        so_far[i] += data[r][i] = static_cast<int32_t>(random() % 100);
      memory.push_back({{data[r].data(), data[r].data(), nullptr, state[r].data()}});
    }
    ASSERT_EQ(simulate(plans, memory, random), "");
    for (const auto& result : data) ASSERT_EQ(result, so_far) << call;
  }
}

TEST(State, StaysThePlansOwnWithWhatIsNativeBeside) {
  const Shape shape = shape_of(50, 3);
  const Range range{3, 4};
  const Plan plan = with(running_sum(shape), Collective::kAllReduce, shape,
                         {.exact = {&range, 1}, .verified = true});
  EXPECT_EQ(validate(plan, shape), "");
  EXPECT_EQ(plan.state.key, "running sum of 50");
  EXPECT_EQ(plan.state.bytes, 400u);
}

TEST(State, ValidateFindsWhatIsWrong) {
  const Shape shape = shape_of(50, 3);
  const auto broken = [&](auto change) {
    Plan plan = running_sum(shape);
    change(plan);
    return validate(plan, shape);
  };
  ASSERT_EQ(broken([](Plan&) {}), "");
  EXPECT_EQ(broken([](Plan& p) { p.state.key = ""; }), "a state without a key");
  EXPECT_EQ(broken([](Plan& p) { --p.state.bytes; }), "step 0 (sum): a place past its region");
  EXPECT_EQ(broken([](Plan& p) { p.steps[1].after.clear(); }),
            "step 1 (add): reads what may not be written yet");
  EXPECT_EQ(broken([](Plan& p) { p.steps[1].compute.push_back(p.steps[1].compute[0]); }),
            "step 1 (add): reads what may not be written yet");
  EXPECT_EQ(broken([](Plan& p) { p.steps[1].compute[0].inputs[0].format = Format::kPacked; }),
            "step 1 (add): writes what may still be in use");
  EXPECT_EQ(broken([](Plan& p) { p.steps[2].copies[0].target.region = Region::kSend; }),
            "step 2 (give): a copy from or to where none may be");
  // From the state to itself, and from the send buffer.
  EXPECT_EQ(broken([](Plan& p) { p.steps[2].copies[0].target = {Region::kState, 200}; }), "");
  EXPECT_EQ(broken([](Plan& p) {
              p.steps[2].copies.push_back({{Region::kState, 200}, {Region::kSend, 0}, 200});
            }),
            "");
}

TEST(State, IsPrinted) {
  EXPECT_EQ(print(running_sum(shape_of(50, 3))),
            R"(running sum: 3 steps, scratch 0 B, wire 0 B, raw 266 B
  native collectives send 266 B
  keeps 400 B, "running sum of 50"
  0 sum on communicate 0
    native AllReduce state+200 <- send+0 x50
  1 add on decode after 0
    state+0 x50 <- state+0 raw state+200 raw
  2 give on decode
    recv+0 x200 B <- state+0 as it is
)");
}

}  // namespace
}  // namespace terse::plan
