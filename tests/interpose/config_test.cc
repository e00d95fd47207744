// Calls with a configuration of their own: those that do not ask for what NCCL alone does are
// compressed as the plain ones are.
#include <span>

#include "configured.h"

namespace terse::test {
namespace {

// What the rank has at the end of the calls, in one group where there are several.
Values results(int rank, ncclComm_t comm, std::span<const CallPair> pairs,
               ConfiguredCall CallPair::*call, const ncclCollConfig_t* config) {
  const Values in = input(rank);
  Values out(pairs.size() * in.size(), -1);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ((pairs[i].*call)(in.data(), out.data() + i * in.size(), kCount, comm, config),
              ncclSuccess)
        << pairs[i].name;
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
  return out;
}

TEST(Configured, CallsAreCompressedAsThePlainOnesAre) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const ncclCollConfig_t untouched = call_config();
    ncclCollConfig_t of_2_31 = call_config();
    of_2_31.size = NCCL_COLLCONFIG_V23100_BYTES;
    of_2_31.version = NCCL_VERSION(2, 31, 2);
    const ncclCollConfig_t* const configs[] = {nullptr, &untouched, &of_2_31};
    for (const CallPair& pair : kCallPairs) {
      const size_t before = stats_of(comm).calls;
      const Values want = results(rank, comm, {&pair, 1}, &CallPair::plain, nullptr);
      for (const ncclCollConfig_t* c : configs)
        EXPECT_EQ(results(rank, comm, {&pair, 1}, &CallPair::configured, c), want) << pair.name;
      EXPECT_EQ(stats_of(comm).calls, before + 1 + std::size(configs)) << pair.name;
    }
    EXPECT_NE(sum(rank, comm, &untouched), native_sum(rank, comm));
  });
}

TEST(Configured, GroupsAreToo) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const ncclCollConfig_t untouched = call_config();
    const Values want = results(rank, comm, kCallPairs, &CallPair::plain, nullptr);
    EXPECT_EQ(results(rank, comm, kCallPairs, &CallPair::configured, &untouched), want);
    EXPECT_EQ(stats_of(comm).calls, 2 * std::size(kCallPairs));
  });
}

// Members that a later version has appended.
struct Larger {
  ncclCollConfig_t known = call_config();
  int number = NCCL_CONFIG_UNDEF_INT, other_number = NCCL_CONFIG_UNDEF_INT;
  const void* pointer = nullptr;

  Larger() { known.size = sizeof(Larger); }
};

// Each by one change of a configuration without any effect.
struct Change {
  const char* what;
  void (*make)(Larger& c);
};

constexpr Change kForNccl[] = {
    {"minCTAs", [](Larger& c) { c.known.minCTAs = 1; }},
    {"maxCTAs", [](Larger& c) { c.known.maxCTAs = 4; }},
    {"nvlsCTAs", [](Larger& c) { c.known.nvlsCTAs = 0; }},
    {"cgaClusterSize", [](Larger& c) { c.known.cgaClusterSize = 2; }},
    {"CTAPolicy", [](Larger& c) { c.known.CTAPolicy = NCCL_CTA_POLICY_ZERO; }},
    {"a forced algorithm", [](Larger& c) { c.known.algSelection = "ring"; }},
    {"an event",
     [](Larger& c) { c.known.launchCompletionEvent = reinterpret_cast<CUevent_st*>(&c); }},
    {"a later number", [](Larger& c) { c.other_number = 1; }},
    {"a later pointer", [](Larger& c) { c.pointer = &c; }},
    {"more than is looked at", [](Larger& c) { c.known.size = size_t{1} << 40; }}};

constexpr Change kForAll[] = {
    {"nothing", [](Larger&) {}},
    {"an algorithm that is not forced",
     [](Larger& c) { c.known.algSelection = "ring", c.known.forceAlgSelection = 0; }},
    {"no algorithm", [](Larger& c) { c.known.algSelection = ""; }},
    {"a tag", [](Larger& c) { c.known.userProfilerTag = 9; }},
    {"a later version", [](Larger& c) { c.known.version = 99999; }}};

TEST(Configured, WhatIsForNcclAloneStaysNativeAndIsCounted) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const Values exact = native_sum(rank, comm);
    size_t counted = 0;
    for (const Change& change : kForNccl) {
      Larger c;
      change.make(c);
      EXPECT_EQ(sum(rank, comm, &c.known), exact) << change.what;
      EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_CONFIG], ++counted) << change.what;
    }
    EXPECT_EQ(stats_of(comm).calls, 0u);
    const Values compressed = sum(rank, comm, nullptr);
    ASSERT_NE(compressed, exact);
    for (const Change& change : kForAll) {
      Larger c;
      change.make(c);
      EXPECT_EQ(sum(rank, comm, &c.known), compressed) << change.what;
    }
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_CONFIG], counted);
  });
}

TEST(Configured, WhatIsForNcclAloneIsNativeInAGroupToo) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const Values exact = native_sum(rank, comm), compressed = sum(rank, comm, nullptr),
                 in = input(rank);
    Values one(kCount), other(kCount);
    ncclCollConfig_t c = call_config();
    c.minCTAs = 1;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (const auto& [out, config] : {std::pair(&one, &c), {&other, nullptr}})
      ASSERT_EQ(ncclAllReduceConfig(in.data(), out->data(), kCount, ncclFloat32, ncclSum, comm,
                                    nullptr, config),
                ncclSuccess);
    c = {};  // it had to last for the call
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(one, exact);
    EXPECT_EQ(other, compressed);
  });
}

TEST(Configured, WhatNcclRefusesItRefusesItself) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclCollConfig_t wrong = call_config();
    wrong.magic = 0;
    expect_refused(rank, comm, wrong, ncclInvalidArgument);
    expect_said("magic is 0x0");
    EXPECT_EQ(sum(rank, comm, nullptr), sum(rank, comm, nullptr));
  });
}

TEST(Configured, TheTagChoosesTheRule) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const ncclCollConfig_t seven = tagged(7), eight = tagged(8);
    const Values plain = sum(rank, comm, nullptr), int4 = sum(rank, comm, &seven),
                 exact = native_sum(rank, comm);
    EXPECT_NE(int4, plain);
    EXPECT_NE(int4, exact);
    EXPECT_EQ(sum(rank, comm, &eight), exact);
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_OFF], 1u);
  });
}

// Under an NCCL of 2.28, which has no such calls.
TEST(ConfiguredOld, WhatIsCompressedNeedsThePlainCallsAlone) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const ncclCollConfig_t untouched = call_config();
    const Values plain = results(rank, comm, {kCallPairs, 1}, &CallPair::plain, nullptr);
    EXPECT_EQ(results(rank, comm, {kCallPairs, 1}, &CallPair::configured, &untouched), plain);
    EXPECT_EQ(stats_of(comm).calls, 2u);
    expect_refused(rank, comm, untouched, ncclInvalidUsage, ncclInt32);
    expect_said("ncclAllReduceConfig: the NCCL in use, 2.28.9 (");
  });
}

}  // namespace
}  // namespace terse::test
