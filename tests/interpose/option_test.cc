// Terse's own options in a call's configuration: a scheme, exact, or compressed without fail.
#include <barrier>

#include "configured.h"

namespace terse::test {
namespace {

// An option of terse's, the last of its list.
ncclConfigExt_t option(int id, int value) {
  ncclConfigExt_t o{};
  o.key = {TERSE_VENDOR_ID, id};
  o.val.i = value;
  return o;
}

ncclConfigExt_t scheme_option(const char* scheme) {
  ncclConfigExt_t o = option(TERSE_OPTION_SCHEME, 0);
  o.val.s = scheme;
  return o;
}

ncclCollConfig_t with(ncclConfigExt_t& options) {
  ncclCollConfig_t c = call_config();
  c.ext = &options;
  return c;
}

TEST(Configured, ASchemeOfItsOwnTakesThePlaceOfTheRules) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t others = scheme_option("what they like"), own = scheme_option("int4");
    others.key.vendorId = TERSE_VENDOR_ID + 1;
    others.next = &own;
    ncclCollConfig_t c = with(others);
    const ncclCollConfig_t seven = tagged(7);
    const Values int4 = sum(rank, comm, &seven);
    EXPECT_EQ(sum(rank, comm, &c), int4);
    constexpr size_t kSmall = 100;
    EXPECT_NE(sum(rank, comm, &c, kSmall), native_sum(rank, comm, kSmall));
    EXPECT_EQ(stats_of(comm).calls, 3u);
    c.userProfilerTag = 8;  // of a rule with off
    EXPECT_EQ(sum(rank, comm, &c), native_sum(rank, comm));
    own.val.s = "off";
    c.userProfilerTag = 0;
    EXPECT_EQ(sum(rank, comm, &c), native_sum(rank, comm));
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_OFF], 2u);
  });
}

TEST(Configured, WhatSaysExactIs) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t exact = option(TERSE_OPTION_EXACT, 1);
    const ncclCollConfig_t c = with(exact);
    EXPECT_EQ(sum(rank, comm, &c), native_sum(rank, comm));
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_OFF], 1u);
    exact.val.i = 0;
    EXPECT_EQ(sum(rank, comm, &c), sum(rank, comm, nullptr));
  });
}

struct Refused {
  ncclDataType_t datatype;
  ncclRedOp_t op;
  size_t count;
  uint64_t tag;
  int max_ctas;
  const char* cause;
};

constexpr int kAny = NCCL_CONFIG_UNDEF_INT;
constexpr Refused kRefused[] = {
    {ncclInt32, ncclSum, kCount, 0, kAny, "but the datatype is not compressed"},
    {ncclFloat32, ncclMax, kCount, 0, kAny, "but the operation is not compressed"},
    {ncclFloat32, ncclSum, 100, 0, kAny, "but the message is small"},
    {ncclFloat32, ncclSum, kCount, 8, kAny, "but no rule asks for it, or it is off"},
    {ncclFloat32, ncclSum, kCount, 0, 1, "but the call's configuration is for NCCL"}};

TEST(Configured, WhatMustBeCompressedAndCannotIsAnErrorOnAllRanks) {
  std::barrier each(kRanks);
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    for (const Refused& r : kRefused) {
      ncclCollConfig_t c = with(must);
      c.userProfilerTag = r.tag;
      c.maxCTAs = r.max_ctas;
      expect_refused(rank, comm, c, ncclInvalidUsage, r.datatype, r.op, r.count);
      each.arrive_and_wait();
      expect_said(r.cause);
      each.arrive_and_wait();
    }
    const ncclCollConfig_t c = with(must);
    EXPECT_EQ(sum(rank, comm, &c), sum(rank, comm, nullptr)) << "the communicator is as it was";
  });
}

TEST(Configured, TheErrorNamesCollectiveCommunicatorRankAndCause) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    expect_refused(rank, comm, with(must), ncclInvalidUsage, ncclInt32);
    for (const char* part : {"ncclAllReduceConfig: communicator #", ", rank ", " of 2: AllReduce: ",
                             "asks that it is compressed, but the datatype is not compressed"})
      expect_said(part);
  });
}

TEST(Configured, OneRankHasNothingToCompress) {
  run_ranks(1, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    const ncclCollConfig_t c = with(must);
    EXPECT_EQ(sum(rank, comm, &c), native_sum(rank, comm));
    EXPECT_EQ(sum(rank, comm, &c, 1), native_sum(rank, comm, 1));
  });
}

TEST(Configured, AGroupFailsWithWhatMustBeCompressed) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    const ncclCollConfig_t c = with(must);
    const Values in = input(rank);
    Values out(kCount, -1), other(kCount, -1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(ncclAllReduceConfig(in.data(), other.data(), kCount, ncclFloat32, ncclMax, comm,
                                  nullptr, &c),
              ncclInvalidUsage);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_EQ(out, Values(kCount, -1));
    EXPECT_EQ(other, Values(kCount, -1));
    EXPECT_EQ(sum(rank, comm, &c), sum(rank, comm, nullptr));
  });
}

// Of what is known once the ranks have met, as that the exact elements and the codes are too much.
TEST(Configured, WhatMustBeCompressedIsAnErrorAlsoWhereThatShowsLate) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const auto exclude = reinterpret_cast<decltype(&tersePreloadExclude)>(
        dlsym(RTLD_DEFAULT, "tersePreloadExclude"));
    const terseRange_t all{0, kCount};
    ASSERT_EQ(exclude(comm, kCount, &all, 1), ncclSuccess);
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    expect_refused(rank, comm, with(must), ncclInvalidUsage);
    expect_said("but what stays exact and the codes are as much");
    EXPECT_EQ(sum(rank, comm, nullptr), native_sum(rank, comm)) << "all of it is exact";
  });
}

TEST(Configured, OptionsThatCannotBeAreRefused) {
  run_ranks(1, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t unknown = option(4, 1), null = scheme_option(nullptr),
                    wrong = scheme_option("int9"), exact = option(TERSE_OPTION_EXACT, 1),
                    twice = option(TERSE_OPTION_EXACT, 0), own = scheme_option("int8"),
                    endless = option(TERSE_OPTION_EXACT, 0);
    exact.next = &own;
    ncclConfigExt_t again = twice;
    twice.next = &again;
    endless.key.vendorId = 1;
    endless.next = &endless;
    const struct {
      ncclConfigExt_t& options;
      const char* says;
    } cases[] = {{unknown, "terse has no option 4"},
                 {null, "the scheme of its configuration is null"},
                 {wrong, "int9"},
                 {exact, "that it is exact, and that it is compressed"},
                 {twice, "terse's option 2 twice"},
                 {endless, "have no end"}};
    for (const auto& [options, says] : cases) {
      expect_refused(rank, comm, with(options), ncclInvalidArgument);
      expect_said(says);
    }
    EXPECT_EQ(sum(rank, comm, nullptr), native_sum(rank, comm));
  });
}

TEST(Configured, SchemesThatDifferAreAnErrorAtTheirFirstUse) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t own = scheme_option(rank == 0 ? "int5" : "int6");
    expect_refused(rank, comm, with(own), ncclInvalidUsage);
    expect_said("the scheme of rank");
  });
}

// Under TERSE_SCHEME=off.
TEST(ConfiguredOff, CallsAreNativeWhateverTheirScheme) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t own = scheme_option("int4");
    const ncclCollConfig_t c = with(own);
    EXPECT_EQ(sum(rank, comm, &c), native_sum(rank, comm));
    EXPECT_EQ(sum(rank, comm, nullptr), native_sum(rank, comm));
  });
}

TEST(ConfiguredOff, WhatMustBeCompressedIsAnError) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclConfigExt_t must = option(TERSE_OPTION_MUST_COMPRESS, 1);
    expect_refused(rank, comm, with(must), ncclInvalidUsage);
    expect_said("but no rule asks for it, or it is off");
    EXPECT_EQ(sum(rank, comm, nullptr), native_sum(rank, comm));
  });
}

}  // namespace
}  // namespace terse::test
