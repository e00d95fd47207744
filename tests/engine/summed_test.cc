// Sums on a grid that all ranks share, which NCCL forms or the owners of shards, as calls: what
// they are on many ranks, and what is refused. Their bytes collectives_test.cc holds to the
// reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "client_stats.h"
#include "engine/call/route.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "idle.h"
#include "ranks.h"
#include "reference.h"
#include "scheme_handle.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

// All ranks have the largest of the same sign: no code goes beyond its lane, or its exponents. What
// is merged of 2^k ranks is exact, too; of others it is so on average.
TEST(SummedCodes, LargestOfAllRanksAreExact) {
  for (const int ranks : {2, 3, 4, 5, 7, 8, 16})
    for (const char* text : {"linear8", "linear16", "exp8"}) {
      const bool merged = sharing_of(parse_scheme(text).spec) == plan::Sharing::kMerged;
      const auto n = static_cast<unsigned>(ranks);
      const bool exact = !merged || std::has_single_bit(n);
      SCOPED_TRACE(std::string(text) + " on " + std::to_string(ranks));
      next_ordinal();
      run_ranks(ranks, [&](int, ncclComm_t comm) {
        const SchemeHandle scheme(text);
        std::vector<float> data(1000);
        for (size_t i = 0; i < data.size(); ++i) data[i] = i % 3 == 1 ? -2.5f : 2.5f;
        const std::vector<float> given = data;
        const Call call{.count = data.size()};
        ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr),
                  ncclSuccess)
            << terseGetLastError();
        double mean = 0;
        for (size_t i = 0; i < data.size(); ++i) {
          const float times = data[i] / given[i];
          ASSERT_GE(times, static_cast<float>(exact ? n : std::bit_floor(n) / 2)) << i;
          ASSERT_LE(times, static_cast<float>(exact ? n : std::bit_ceil(n))) << i;
          mean += times / static_cast<double>(data.size());
        }
        EXPECT_NEAR(mean / ranks, 1, 0.06);
        terseCommRelease(comm);
      });
    }
}

// From 9 ranks on eight bits have fewer than 15 levels on a side.
TEST(SummedCodes, MoreRanksHaveWiderCodes) {
  constexpr size_t kCount = 4096;
  for (const auto& [ranks, bytes] : {std::pair{8, size_t{1}}, {9, size_t{2}}}) {
    next_ordinal();
    run_ranks(ranks, [&, ranks = ranks, bytes = bytes](int, ncclComm_t comm) {
      const SchemeHandle scheme("linear8");
      std::vector<float> data(kCount, 1.0f);
      const Call call{.count = kCount};
      ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr),
                ncclSuccess);
      const terseStats_t stats = client_stats(comm);
      // As NCCL's rings send them: codes, and a parameter for each 256.
      const size_t packed = kCount * bytes + kCount / 256 * 4, n = static_cast<size_t>(ranks);
      EXPECT_NEAR(static_cast<double>(stats.wire_bytes),
                  2.0 * static_cast<double>((n - 1) * packed) / static_cast<double>(n), 4);
      EXPECT_EQ(stats.calls, 1u);
      terseCommRelease(comm);
    });
  }
}

// Their native collectives, those of other works and messages between ranks keep one order on all.
TEST(SummedCodes, GoTogetherWithCallsOfOtherKinds) {
  constexpr int kRanks = 3;
  const uint64_t ordinal = next_ordinal();
  const auto call = [&](Collective collective, const char* scheme, size_t count, ncclRedOp_t op,
                        uint64_t sequence) {
    return Call{.collective = collective,
                .scheme = parse_scheme(scheme),
                .op = op,
                .count = count,
                .ordinal = ordinal,
                .sequence = sequence};
  };
  // Of several chunks, and of one.
  const Call calls[] = {call(Collective::kAllReduce, "linear8", 700'003, ncclSum, 0),
                        call(Collective::kReduceScatter, "linear16", 1'001, ncclAvg, 1),
                        call(Collective::kAllReduce, "int4:round=stochastic", 300'007, ncclSum, 2),
                        call(Collective::kReduceScatter, "linear8:scale=bf16", 300'001, ncclSum, 3),
                        call(Collective::kAllGather, "int8", 5'000, ncclSum, 4),
                        call(Collective::kAllReduce, "exp8", 700'003, ncclAvg, 5),
                        call(Collective::kReduce, "exp8:scale=bf16", 300'001, ncclSum, 6),
                        call(Collective::kReduceScatter, "exp8", 1'001, ncclSum, 7)};
  std::vector<std::vector<Bytes>> sent, wanted;
  for (const Call& c : calls) {
    sent.emplace_back();
    for (int r = 0; r < kRanks; ++r)
      sent.back().push_back(gaussian(send_count(c, kRanks), ncclFloat32, 10 + r));
    wanted.push_back(expected(c, sent.back()));
  }
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const HostStream stream(false);
    std::vector<Bytes> out;
    std::vector<int32_t> integers(100, rank + 1);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    for (size_t i = 0; i < std::size(calls); ++i) {
      const SchemeHandle scheme(calls[i].scheme);
      out.emplace_back(wanted[i][rank].size());
      ASSERT_EQ(call_terse(calls[i], sent[i][rank].data(), out.back().data(), scheme.get(), comm,
                           stream.get()),
                ncclSuccess);
    }
    const SchemeHandle other("int8");
    ASSERT_EQ(terseAllReduce(integers.data(), integers.data(), 100, ncclInt32, ncclMax, other.get(),
                             comm, stream.get()),
              ncclSuccess);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    ASSERT_EQ(stream.synchronize(), ncclSuccess);
    for (size_t i = 0; i < std::size(calls); ++i)
      EXPECT_TRUE(out[i] == wanted[i][rank]) << "call " << i << " rank " << rank;
    EXPECT_EQ(integers, std::vector<int32_t>(100, kRanks));
    terseCommRelease(comm);
  });
}

// Codes of two shots, and parameters as NCCL's rings send them, one for each 256.
TEST(SummedCodes, MergedCodesTravelAlone) {
  constexpr size_t kCount = 3 * 4096, kRanks = 3;
  next_ordinal();
  run_ranks(kRanks, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme("exp8");
    std::vector<float> data(kCount, 1.0f);
    const Call call{.count = kCount};
    ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr), ncclSuccess);
    const size_t codes = 2 * (kRanks - 1) * 4096, params = kCount / 256 * 4;
    EXPECT_EQ(client_stats(comm).wire_bytes, codes + 2 * (kRanks - 1) * params / kRanks);
    terseCommRelease(comm);
  });
}

// By a NaN or an infinity on one rank all lose its block, and no other.
TEST(SummedCodes, WhatIsNotFiniteIsNanInItsBlockForAll) {
  constexpr size_t kCount = 100'000, kBad = 77'777, kBlock = 256;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
    for (const char* text : {"linear8", "exp8", "exp8:scale=bf16"}) {
      next_ordinal();
      run_ranks(3, [&](int rank, ncclComm_t comm) {
        const SchemeHandle scheme(text);
        std::vector<float> data(kCount, 1.0f);
        if (rank == 1) data[kBad] = bad;
        const Call call{.count = kCount};
        ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr),
                  ncclSuccess);
        // Shards are of whole blocks.
        for (size_t i = 0; i < kCount; ++i)
          ASSERT_EQ(std::isnan(data[i]), i / kBlock == kBad / kBlock) << text << " " << i;
        terseCommRelease(comm);
      });
    }
}

TEST(SummedCodes, WhatIsNoSumStaysNative) {
  for (const char* text : {"linear8", "exp8"}) {
    next_ordinal();
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      const SchemeHandle scheme(text);
      const std::vector<float> own(100, static_cast<float>(rank) + 0.123f);
      std::vector<float> all(200);
      const Call call{.collective = Collective::kAllGather, .count = 100};
      ASSERT_EQ(call_terse(call, own.data(), all.data(), scheme.get(), comm, nullptr), ncclSuccess);
      EXPECT_EQ(all[7], 0.123f);
      EXPECT_EQ(all[107], 1.123f);
      EXPECT_EQ(client_stats(comm).bypasses[TERSE_BYPASS_COLLECTIVE], 1u);
      EXPECT_EQ(client_stats(comm).calls, 0u);
      terseCommRelease(comm);
    });
  }
}

// A rule's scheme is agreed on with the settings, as calls will have it: none of them waits for all
// ranks again, and the first one may be recorded in a graph.
TEST(SummedCodes, RulesAreAgreedOnAtTheCommunicatorsCreation) {
  const struct {
    const char* scheme;
    int ranks, bits;
  } kCases[] = {{"linear8", 2, 8}, {"linear8", 9, 16}, {"exp8", 2, 8}, {"exp8", 9, 8}};
  for (const auto& [text, ranks, bits] : kCases) {
    Settings own = settings();
    own.policy = parse_policy_line(text, 1);
    next_ordinal();
    run_ranks(ranks, [&, bits = bits](int, ncclComm_t comm) {
      const CommunicatorPointer c = communicator(comm, own);
      const Agreement settings_alone{c.get(), nullptr, nullptr};
      agree({&settings_alone, 1});
      std::vector<float> data(5000, 1.0f);
      const Route way = route(*c, {.collective = Collective::kAllReduce,
                                   .send = data.data(),
                                   .recv = data.data(),
                                   .count = data.size(),
                                   .datatype = ncclFloat32});
      EXPECT_EQ(way.compressed().scheme.spec.bits, bits);
      EXPECT_TRUE(c->agreed().has(way.compressed().scheme, {}));
      release_communicator(comm, false);  // this program's own, not the library's
    });
  }
}

// What a scheme is not for stays native, however many ranks there are.
TEST(SummedCodes, TooManyRanksAreAnErrorOnlyWhereItWouldBeCompressed) {
  Settings own = settings();
  own.policy = parse_policy_line("allreduce,allgather -> linear8", 1);
  idle_ranks = 3000;
  {
    IdleCommunicator idle(parse_scheme("int8"), own);
    float data[4];
    Request r{.collective = Collective::kAllReduce,
              .send = data,
              .recv = data,
              .count = 4,
              .datatype = ncclInt64};
    EXPECT_EQ(route(idle.state, r).bypass(), TERSE_BYPASS_DTYPE);
    r.datatype = ncclFloat32;
    r.op = ncclMax;
    EXPECT_EQ(route(idle.state, r).bypass(), TERSE_BYPASS_OP);
    r.op = ncclSum;
    EXPECT_THROW(route(idle.state, r), Error);
    r.collective = Collective::kAllGather;
    EXPECT_EQ(route(idle.state, r).bypass(), TERSE_BYPASS_COLLECTIVE);
  }
  idle_ranks = 8;
}

TEST(SummedCodes, TooManyRanksAreRefusedByNumber) {
  const Scheme scheme = parse_scheme("linear16");
  EXPECT_EQ(require_on_ranks(scheme, 2184).spec.ranks, 2184);
  EXPECT_EQ(on_ranks(scheme, 2185), std::nullopt);
  try {
    require_on_ranks(scheme, 2185);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidArgument);
    EXPECT_NE(e.message.find("no more than 2184 ranks"), std::string::npos) << e.message;
  }
  EXPECT_EQ(require_on_ranks(parse_scheme("linear8"), 8).spec.bits, 8);
  EXPECT_EQ(require_on_ranks(parse_scheme("linear8"), 9).spec.bits, 16);
  EXPECT_EQ(on_ranks(parse_scheme("int8"), 9000), parse_scheme("int8"));
  // What is merged has the same codes on any.
  EXPECT_EQ(require_on_ranks(parse_scheme("exp8"), 65535).spec.bits, 8);
  EXPECT_EQ(require_on_ranks(parse_scheme("exp8"), 65535).spec.ranks, 65535);
  EXPECT_THROW(require_on_ranks(parse_scheme("exp8"), 65536), Error);
}

}  // namespace
}  // namespace terse::test
