// A preset leaves a call native that is predicted to gain too little; a scheme by name, one that is
// predicted to lose too much.
#include <gtest/gtest.h>

#include "engine/call/route.h"
#include "engine/comm/comm_routing.h"
#include "engine/comm/savings.h"
#include "idle.h"
#include "policy/nearest_profile.h"
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

// What is summed in fp32 is as many bytes as NCCL's.
TEST_F(PresetGain, DoesNotMatterToSumsInFp32) {
  EXPECT_EQ(way("fp32-sums", "h800-8x-3200gbit", 64 << 20), way("fp32-sums", nullptr, 64 << 20));
  EXPECT_NE(way("fp32-sums", "h800-8x-3200gbit", 64 << 20), "native");
  EXPECT_NE(way("fp32-sums", "h800-8x-3200gbit", 64 << 20), "predicted as fast");
}

TEST_F(PresetGain, DoesNotMatterToASchemeByName) {
  EXPECT_EQ(way("int8", "gb200-4x-nvl72", 64 << 20), "int8:block=128,round=nearest");
}

// Whether an AllReduce of bf16 on two nodes of four ranks is left to NCCL.
bool is_left(const char* scheme, const char* profile, size_t bytes, Fuse fuse = Fuse::kAuto) {
  Settings own = settings();
  own.fuse = fuse;
  if (profile != nullptr) own.profile = read_profile(profile);
  IdleCommunicator c(Scheme{}, own);
  c.backend.gpu = true;
  c.state.routing().plans().learn(plan::even_topology(c.state.ranks, 2));
  c.state.routing().learn({}, own.profile ? &*own.profile : nullptr);
  return is_predicted_slow(
      c.state,
      {.collective = plan::Collective::kAllReduce, .count = bytes / 2, .datatype = ncclBfloat16},
      parse_scheme(scheme));
}

TEST(NamedLoss, IsLeftToNccl) {
  EXPECT_TRUE(is_left("int8", "gb200-4x-nvl72", 64 << 20));
  EXPECT_FALSE(is_left("int8", "a100-8x-100gbit", 64 << 20));
  EXPECT_FALSE(is_left("int8", nullptr, 64 << 20)) << "nothing is known";
}

// Nor is what is for the sums, and not for time.
TEST(NamedLoss, IsTakenByWhoNamesTheAlgorithm) {
  EXPECT_FALSE(is_left("int8:algo=hierarchical", "gb200-4x-nvl72", 64 << 20));
  EXPECT_FALSE(is_left("bf16", "gb200-4x-nvl72", 64 << 20));
}

// From 3 % on, whatever the size and the machine.
TEST(NamedLoss, IsAtMostThreeInAHundred) {
  size_t left = 0, compressed = 0;
  for (const KnownProfile& known : known_profiles()) {
    const model::Profile own = parse_profile(known.text, std::string(known.name));
    for (const int nodes : {1, 2, 16, 2'048}) {
      const int ranks = nodes * own.node_ranks;
      if (nodes > 1 && (!own.between || ranks > 4'096)) continue;
      const plan::Topology topology = plan::even_topology(ranks, nodes);
      CommRouting routing(0, ranks, plan::kGpuChunks, {});
      routing.plans().learn(topology);
      routing.learn({}, &own);
      for (const char* scheme : {"int8", "int4"})
        for (size_t count = 1 << 15; count <= size_t{1} << 30; count <<= 3) {
          const codec::Spec spec = parse_scheme(scheme).spec;
          const auto plan = routing.plans().of({.collective = plan::Collective::kAllReduce,
                                                .root = 0,
                                                .count = count,
                                                .dtype = codec::Dtype::kBfloat16,
                                                .forms = {spec},
                                                .algorithm = {},
                                                .delta = {},
                                                .verified = false,
                                                .learns = false});
          const Saving saving = routing.savings().of(
              &own, parse_scheme(scheme),
              {plan::Collective::kAllReduce, count, codec::Dtype::kBfloat16, ranks, 0},
              routing.machines());
          EXPECT_EQ(plan->is_slow, saving.native < 0.97 * saving.compressed)
              << own.name << ", " << nodes << " nodes, " << scheme << " of " << count;
          ++(plan->is_slow ? left : compressed);
        }
    }
  }
  EXPECT_GT(left, 50u);
  EXPECT_GT(compressed, 50u);
}

// What the nearest profile lets through is not slower by the machine's own.
void expect_no_loss(const model::Profile& own, plan::Collective collective, codec::Dtype dtype,
                    int nodes) {
  const int ranks = nodes * own.node_ranks;
  const Machines machines{plan::kGpuChunks, plan::even_topology(ranks, nodes)};
  const std::optional<model::Profile> nearest =
      nearest_profile({own.devices.front(), own.between->bandwidth}, machines.topology);
  ASSERT_TRUE(nearest) << own.name;
  const Scheme scheme = parse_scheme(
      collective == plan::Collective::kAllGather ? "minmax8:block=128,round=shift" : kSafe);
  for (int k = 0; k < 16; ++k) {
    const size_t count =
        (size_t{64} << 10 << k) / codec::dtype_size(dtype) / plan::shards(collective, ranks);
    const Prospect call{collective, count, dtype, ranks, 0};
    if (count == 0 || Savings().of(&*nearest, scheme, call, machines).is_too_little()) continue;
    const Saving truth = Savings().of(&own, scheme, call, machines);
    EXPECT_GE(truth.native, 0.97 * truth.compressed)
        << own.name << " by " << nearest->name << ", " << plan::name(collective) << " of "
        << (size_t{64} << 10 << k) << " B on " << nodes << " nodes";
  }
}

TEST(NearestGain, IsNoLossOnAnyKnownMachine) {
  for (const KnownProfile& known : known_profiles()) {
    model::Profile own = parse_profile(known.text, std::string(known.name));
    if (!own.between) continue;
    const double bandwidth = own.between->bandwidth;
    for (const double times : {1.0, 0.125, 0.5, 2.0, 8.0}) {  // another network
      own.between->bandwidth = times * bandwidth;
      for (const plan::Collective collective :
           {plan::Collective::kAllReduce, plan::Collective::kAllGather,
            plan::Collective::kReduceScatter})
        for (const codec::Dtype dtype : {codec::Dtype::kFloat32, codec::Dtype::kBfloat16})
          for (const int nodes : {2, 8}) expect_no_loss(own, collective, dtype, nodes);
    }
  }
}

}  // namespace
}  // namespace terse::test
