// When the calls were that a communicator keeps, by events like CUDA's: the time between two of
// them is in milliseconds of single precision.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "engine/observe/meter.h"
#include "idle.h"

namespace terse::test {
namespace {

constexpr int64_t kMicrosecond = 1000, kSecond = 1'000'000'000, kHour = 3600 * kSecond;
constexpr int64_t kNoon = 1'795'000'000 * kSecond;

int64_t g_time, g_set;  // the GPU's; by how much the machine's was set anew
int64_t machine_time() { return kNoon + g_time + g_set; }

class Gpu final : public IdleBackend {
 public:
  void record(Event event, Stream) override { at_[event] = g_time; }
  void destroy_event(Event event) noexcept override { at_.erase(event); }
  std::optional<double> seconds(Event from, Event to) override {
    if (!at_.contains(from) || !at_.contains(to)) return {};
    const auto milliseconds = static_cast<float>(1e-6 * static_cast<double>(at_[to] - at_[from]));
    return 1e-3 * milliseconds;
  }
  size_t events() const { return at_.size(); }

 private:
  std::map<Event, int64_t> at_;
};

const CallKind kKind{.rule = 0, .collective = plan::Collective::kAllReduce, .scheme = {}};
constexpr int64_t kStep = 5 * kMicrosecond;  // and each begins as long after the one before

Settings settings_of(uint64_t trace, const std::string& report) {
  Settings s;
  s.meter = 0;
  s.trace = trace;
  s.report = report;
  return s;
}

plan::Plan plan_of_steps() {
  const plan::Shape shape{.count = 5000,
                          .ranks = 3,
                          .chunk_policy = plan::exact_chunks(3000),
                          .packing = {32, [](size_t n) { return n; }}};
  return plan::two_shot_all_reduce(shape);
}

class Traced : public testing::Test {
 protected:
  void SetUp() override { g_time = g_set = 0; }

  Sample* start(Meter& meter) {
    return meter.start(plan_, kKind, {.communicator = 1, .sequence = ++calls_, .collective = {}},
                       false);
  }
  static void count(Meter& meter, Sample* sample) {
    meter.count({.kind = kKind, .sent = {}}, sample);
  }
  // Its steps.
  void run(Sample& sample) const {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      sample.before(i, nullptr);
      g_time += kStep;
      sample.after(i, nullptr);
      g_time += kStep;
    }
  }
  // Whether it is as it was run from `begin` on.
  void expect(const TracedCall& call, int64_t begin) const {
    constexpr double kRounded = 1.0 * kMicrosecond + 10, kNear = 10;
    EXPECT_NEAR(static_cast<double>(call.begin - begin), 0, kRounded);
    ASSERT_EQ(call.steps.size(), plan_.steps.size());
    for (size_t i = 0; i < call.steps.size(); ++i) {
      const auto since = [&](int64_t time) { return static_cast<double>(time - call.begin); };
      const double from = static_cast<double>(2 * i * kStep);
      EXPECT_NEAR(since(call.steps[i].begin), from, kNear);
      EXPECT_NEAR(since(call.steps[i].end), from + kStep, kNear);
    }
    EXPECT_EQ(call.end, call.steps.back().end);
  }

  const plan::Plan plan_ = plan_of_steps();
  Gpu gpu_;
  uint64_t calls_ = 0;
};

TEST_F(Traced, CallsAreTimedAsWellAfterHoursAsAtFirst) {
  constexpr size_t kCalls = 2000;
  const Settings settings = settings_of(kCalls, "reports");
  Meter meter(gpu_, settings, machine_time);
  std::vector<int64_t> begins;
  while (begins.size() < kCalls) {
    g_time += 7 * kSecond;  // four hours of them
    Sample* const sample = start(meter);
    ASSERT_NE(sample, nullptr);
    begins.push_back(machine_time());
    run(*sample);
    sample->finish(nullptr);
    count(meter, sample);
    meter.collect();
  }
  const std::vector<TracedCall> calls = meter.traced();
  ASSERT_EQ(calls.size(), kCalls);
  for (size_t i = 0; i < kCalls && !HasFailure(); ++i) expect(calls[i], begins[i]);
}

// Of three calls the first is counted before the clock is another one, the second after that; and
// both are read then.
TEST_F(Traced, CallsUnderWayKeepTheClockThatTheyBeganUnder) {
  const Settings settings = settings_of(10, "reports");
  Meter meter(gpu_, settings, machine_time);
  std::vector<Sample*> samples;
  std::vector<int64_t> begins;
  for (int i = 0; i < 3; ++i) {
    samples.push_back(start(meter));
    ASSERT_NE(samples.back(), nullptr);
    begins.push_back(machine_time());
    run(*samples.back());
    if (i == 0) count(meter, samples[0]);
    g_time += i == 1 ? kHour : kSecond;
  }
  count(meter, samples[1]);
  count(meter, samples[2]);
  EXPECT_TRUE(meter.traced().empty());
  for (Sample* const sample : samples) sample->finish(nullptr);
  meter.collect();
  const std::vector<TracedCall> calls = meter.traced();
  ASSERT_EQ(calls.size(), 3u);
  for (size_t i = 0; i < calls.size(); ++i) expect(calls[i], begins[i]);
}

// Also where a call has failed.
TEST_F(Traced, ClocksGoWhenTheirCallsAreRead) {
  const Settings settings = settings_of(10, "reports");
  Meter meter(gpu_, settings, machine_time);
  std::vector<size_t> events;
  for (int i = 0; i < 20; ++i) {
    Sample* const sample = start(meter);
    ASSERT_NE(sample, nullptr);
    run(*sample);
    sample->finish(nullptr);
    if (i % 2 == 0)
      count(meter, sample);
    else
      meter.drop(sample);
    meter.collect();
    events.push_back(gpu_.events());
    g_time += kHour;
  }
  for (const size_t n : events) EXPECT_EQ(n, events.front());
}

TEST_F(Traced, CallsGoByTheMachinesTimeAlsoWhenThatIsSetAnew) {
  const Settings settings = settings_of(10, "reports");
  Meter meter(gpu_, settings, machine_time);
  for (const int64_t set : {int64_t{0}, -kHour, kHour}) {
    g_set = set;
    Sample* const sample = start(meter);
    ASSERT_NE(sample, nullptr);
    const int64_t begin = machine_time();
    run(*sample);
    sample->finish(nullptr);
    count(meter, sample);
    meter.collect();
    expect(meter.traced().back(), begin);
  }
}

TEST_F(Traced, NativeCallsAreKeptAndNotCounted) {
  const Settings settings = settings_of(10, "reports");
  Meter meter(gpu_, settings, machine_time);
  Sample* const sample = meter.start_native(plan_);
  ASSERT_NE(sample, nullptr);
  run(*sample);
  sample->finish(nullptr);
  meter.count({.kind = kKind,
               .sent = {{20, 10}, {20, 10}},
               .elements = 5,
               .dtype = ncclInt32,
               .bypass = TERSE_BYPASS_SMALL},
              sample);
  meter.collect();
  EXPECT_TRUE(meter.tallies().empty());
  ASSERT_EQ(meter.traced().size(), 1u);
  const TracedCall call = meter.traced().front();
  EXPECT_EQ(call.call.bypass, TERSE_BYPASS_SMALL);
  EXPECT_NEAR(static_cast<double>(call.begin - kNoon), 0, 10);
  EXPECT_GT(call.end, call.begin);
  EXPECT_TRUE(call.steps.empty());
}

TEST_F(Traced, NativeCallsTakeNoRoomOfOthers) {
  const Settings settings = settings_of(10, "reports");
  Meter meter(gpu_, settings, machine_time);
  size_t natives = 0;
  while (Sample* const sample = meter.start_native(plan_)) {
    meter.count({.kind = kKind, .sent = {}, .bypass = TERSE_BYPASS_SMALL}, sample);
    ASSERT_LT(++natives, 1000u);
  }
  Sample* const sample = start(meter);
  ASSERT_NE(sample, nullptr);
  run(*sample);
  sample->finish(nullptr);
  count(meter, sample);
  meter.collect();
  ASSERT_EQ(meter.traced().size(), 1u);  // though none of the native ones has ended
  EXPECT_FALSE(meter.traced().front().call.bypass);
}

TEST_F(Traced, NoNativeCallIsMeasuredWithoutATrace) {
  for (const Settings& settings : {settings_of(0, "reports"), settings_of(10, "")}) {
    Meter meter(gpu_, settings, machine_time);
    EXPECT_EQ(meter.start_native(plan_), nullptr);
    EXPECT_EQ(gpu_.events(), 0u);
  }
}

TEST_F(Traced, NoCallIsKeptWithoutAReport) {
  const Settings settings = settings_of(10, "");
  Meter meter(gpu_, settings, machine_time);
  EXPECT_EQ(start(meter), nullptr);
  count(meter, nullptr);
  meter.collect();
  EXPECT_TRUE(meter.traced().empty());
  EXPECT_EQ(meter.tallies().at(0).calls, 1u);
  EXPECT_EQ(gpu_.events(), 0u);
}

}  // namespace
}  // namespace terse::test
