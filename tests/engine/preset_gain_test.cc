// A preset leaves a call native that is predicted to gain too little; a scheme by name does not.
#include <gtest/gtest.h>

#include "engine/call/route.h"
#include "idle.h"
#include "policy/profile_file.h"

namespace terse::test {
namespace {

// Routes AllReduces of bf16 on two nodes of four ranks, by rules and a profile.
class PresetGain : public testing::Test {
 protected:
  std::string way(const char* rules, const char* profile, size_t bytes) {
    Settings own = settings();
    own.policy = parse_policy_line(rules, 1);
    if (profile != nullptr) own.profile = read_profile(profile);
    IdleCommunicator c(Scheme{}, own);
    c.backend.gpu = true;
    c.state.routing().plans().learn(plan::even_topology(c.state.ranks, 2));
    const Route taken = route(
        c.state,
        {.collective = plan::Collective::kAllReduce, .count = bytes / 2, .datatype = ncclBfloat16});
    if (const auto reason = taken.bypass())
      return *reason == TERSE_BYPASS_AUTO ? "predicted as fast" : "native";
    return print_scheme(taken.compressed().scheme);
  }
};

constexpr const char* kSafe = "int8:block=64,round=stochastic,scale=bf16";

TEST_F(PresetGain, DecidesWhereAProfileIsKnown) {
  EXPECT_EQ(way("safe", "a100-8x-100gbit", 64 << 20), kSafe);
  EXPECT_EQ(way("safe", "gb200-4x-nvl72", 64 << 20), "predicted as fast");
  EXPECT_EQ(way("safe", nullptr, 64 << 20), kSafe) << "nothing is known";
}

TEST_F(PresetGain, GoesByTheCall) {
  EXPECT_EQ(way("safe", "a100-8x-100gbit", 512), "predicted as fast") << "it is small";
  EXPECT_EQ(way("bytes=1.. -> safe", "h800-8x-3200gbit", 16 << 10), "predicted as fast");
}

TEST_F(PresetGain, DoesNotMatterToASchemeByName) {
  EXPECT_EQ(way("int8", "gb200-4x-nvl72", 64 << 20), "int8:block=128,round=nearest");
}

}  // namespace
}  // namespace terse::test
