// A communicator goes by the settings that it is made with, whatever this process's are.
#include <gtest/gtest.h>

#include "engine/call/route.h"
#include "idle.h"

namespace terse::test {
namespace {

Settings settings_of(const char* scheme, size_t chunk_bytes) {
  Settings s;
  s.policy = parse_policy_line(scheme, s.min_bytes);
  s.chunk_bytes = chunk_bytes;
  return s;
}

TEST(HandedSettings, SayWhatIsCompressed) {
  const Settings first = settings_of("int8", 0), second = settings_of("allgather -> int4", 0);
  IdleCommunicator a(Scheme{}, first), b(Scheme{}, second);
  const Request r{.collective = plan::Collective::kAllGather, .count = 1 << 20};
  EXPECT_EQ(route(a.state, r).compressed().scheme, parse_scheme("int8"));
  EXPECT_EQ(route(b.state, r).compressed().scheme, parse_scheme("int4"));
  const Request sum{.collective = plan::Collective::kAllReduce, .count = 1 << 20};
  EXPECT_EQ(route(a.state, sum).bypass(), std::nullopt);
  EXPECT_EQ(route(b.state, sum).bypass(), TERSE_BYPASS_OFF);
}

// Where no size is set: on a GPU 8 MiB, or 32 KiB a rank.
TEST(HandedSettings, CompressLargerMessagesOnGpus) {
  const Settings usual = settings_of("int8", 0), set = settings_of("shard=64K.. -> int8", 0);
  IdleCommunicator a(Scheme{}, usual), b(Scheme{}, set);
  const auto bypass = [](IdleCommunicator& c, size_t bytes) {
    return route(c.state, {.collective = plan::Collective::kAllReduce, .count = bytes / 4})
        .bypass();
  };
  EXPECT_EQ(bypass(a, 64 << 10), std::nullopt);
  EXPECT_EQ(bypass(a, (64 << 10) - 4), TERSE_BYPASS_SMALL);
  a.backend.gpu = b.backend.gpu = true;
  EXPECT_EQ(bypass(a, 8 << 20), std::nullopt);
  EXPECT_EQ(bypass(a, (8 << 20) - 4), TERSE_BYPASS_SMALL);
  EXPECT_EQ(bypass(b, 64 << 10), std::nullopt);
}

TEST(HandedSettings, SayHowMessagesAreCut) {
  const Settings coarse = settings_of("int8", 0), fine = settings_of("int8", 1 << 16);
  IdleCommunicator a(Scheme{}, coarse), b(Scheme{}, fine);
  EXPECT_EQ(a.state.routing().plans().chunk_policy().chunk_bytes, plan::kHostChunks.chunk_bytes);
  EXPECT_EQ(b.state.routing().plans().chunk_policy().chunk_bytes, size_t{1} << 16);
  const PlanKey key{.collective = plan::Collective::kAllReduce,
                    .count = 1 << 22,
                    .forms = {parse_scheme("int8").spec}};
  EXPECT_GT(b.state.routing().plans().of(key)->steps.size(),
            a.state.routing().plans().of(key)->steps.size());
}

TEST(HandedSettings, SayWhatIsTimedAndVerified) {
  Settings none, all;
  none.meter = none.verify = 0;
  all.meter = all.verify = 1;
  IdleCommunicator a(Scheme{}, none), b(Scheme{}, all);
  const CallKind kind{kNoRule, plan::Collective::kAllReduce, Scheme{}};
  const CallNumber number{0, 5, 5};
  EXPECT_FALSE(a.state.metrics().meter().verifies(kind, number));
  EXPECT_TRUE(b.state.metrics().meter().verifies(kind, number));
  EXPECT_EQ(a.state.metrics().meter().start({}, kind, number, false), nullptr);
  EXPECT_NE(b.state.metrics().meter().start({}, kind, number, false), nullptr);
}

}  // namespace
}  // namespace terse::test
