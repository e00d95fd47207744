// Compressed collectives over hostnccl give the reference's bytes on every rank, for random calls.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "client_stats.h"
#include "poisoned.h"
#include "ranks.h"
#include "reference.h"
#include "summed_reference.h"
#include "terse/terse.h"
#include "terse_client.h"
#include "trials.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kCollectives = 8;  // Send and Recv are not among them

struct Case {
  Call call;
  int ranks;
  bool in_place, null_stream;
  size_t offset;  // of buffers, in bytes
};

constexpr const char* kSchemes[] = {"int8",
                                    "int4",
                                    "int4:own=exact",
                                    "int2:block=32",
                                    "int3:block=96",
                                    "int5:block=64,round=stochastic,seed=5,own=exact",
                                    "int8:round=stochastic",
                                    "minmax8:block=1024,round=shift",
                                    "minmax4:round=stochastic",
                                    "minmax6:block=4096",
                                    "int4:algo=twoshot",
                                    "int4:algo=oneshot",
                                    "minmax8:algo=twoshot,round=shift",
                                    "int7:block=2048",
                                    "int4:block=64,scale=bf16",
                                    "int4:hadamard=32,round=stochastic",
                                    "bf16:round=stochastic",
                                    "fp16",
                                    "fp8e4m3:round=stochastic",
                                    "fp8e5m2:block=64",
                                    "mxfp8:algo=oneshot",
                                    "mxfp6:round=stochastic",
                                    "mxfp4:hadamard=32,algo=twoshot",
                                    "nvfp4:round=stochastic",
                                    "int4:block=64,scale=bf16,fit=mse",
                                    "linear8",
                                    "linear8:block=64,scale=bf16,round=nearest",
                                    "linear16:block=1024",
                                    "exp8",
                                    "exp8:block=64,scale=bf16,round=nearest",
                                    "exp8:block=4096",
                                    "int4:round=stochastic,second=int8",
                                    "int4:round=stochastic,hadamard=32,second=int5",
                                    "int3:round=stochastic,second-round=nearest",
                                    "int4:hadamard=32,second-round=stochastic,algo=twoshot",
                                    "minmax4:block=64,second=bf16,algo=twoshot",
                                    "int4:block=512,second=mxfp8",
                                    "learned4:learn=never,own=exact",
                                    "learned3:learn=never,block=64,round=stochastic"};
constexpr int kKinds = static_cast<int>(std::size(kSchemes));

// Of kKinds in a row each has a scheme of its own, and all collectives are among them; of the next
// ones each scheme has another collective. All else is random.
Case random_case(int trial, std::mt19937& random) {
  static constexpr size_t kCounts[] = {1, 2, 7, 127, 128, 129, 1000, 4099, 65537};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  Case c;
  c.call.collective = static_cast<Collective>((trial + trial / kKinds) % kCollectives);
  c.call.scheme = parse_scheme(kSchemes[trial % kKinds]);
  if (is_summed(c.call)) {
    constexpr Collective kSums[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                    Collective::kReduce};
    c.call.collective = kSums[random() % 3];
  }
  c.call.datatype = kTypes[random() % 3];
  if (c.call.scheme.spec.bits > 8) c.call.datatype = ncclFloat32;  // others stay native
  c.call.op = random() % 2 ? ncclSum : ncclAvg;
  c.call.count = random() % 2 ? kCounts[random() % std::size(kCounts)] : 1 + random() % 20000;
  c.ranks = 2 + static_cast<int>(random() % 7);
  c.call.root = static_cast<int>(random() % c.ranks);
  c.in_place = random() % 2;
  c.null_stream = random() % 2;
  c.offset = random() % 4;
  return c;
}

std::string describe(const Case& c) {
  return fmt::format("{} {} count {} type {} op {} ranks {} root {}{}{} offset {}",
                     name(c.call.collective), print_scheme(c.call.scheme), c.call.count,
                     static_cast<int>(c.call.datatype), static_cast<int>(c.call.op), c.ranks,
                     c.call.root, c.in_place ? " in place" : "",
                     c.null_stream ? " null stream" : "", c.offset);
}

// Runs one case `repeats` times on one communicator and compares every time.
void check_case(const Case& c, uint64_t ordinal, int repeats) {
  SCOPED_TRACE(describe(c));
  const size_t size = datatype_size(c.call.datatype);
  const plan::Traits& traits = plan::traits(c.call.collective);
  std::vector<Bytes> sent;
  for (int r = 0; r < c.ranks; ++r)
    sent.push_back(gaussian(send_count(c.call, c.ranks), c.call.datatype, 100 + r));
  std::vector<std::vector<Bytes>> wanted;
  for (int k = 0; k < repeats; ++k) {
    Call call = c.call;
    call.ordinal = ordinal;
    call.sequence = k;
    wanted.push_back(expected(call, sent));
  }
  run_ranks(c.ranks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(c.call.scheme);
    const HostStream stream(c.null_stream);
    for (int k = 0; k < repeats; ++k) {
      const size_t larger =
          std::max(send_count(c.call, c.ranks), recv_count(c.call, c.ranks)) * size;
      const plan::Position at{c.ranks, rank, c.call.root};
      const bool sends = plan::extent(traits.send, at) != 0;
      const bool receives = plan::extent(traits.recv, at) != 0;
      const bool in_place = c.in_place && sends && receives;
      Guarded send(in_place ? larger : sent[rank].size(), c.offset);
      Guarded recv(recv_count(c.call, c.ranks) * size, c.offset);
      char* in = send.data();
      char* out = recv.data();
      if (in_place) {
        const bool alike = traits.send.per_rank == traits.recv.per_rank;
        const size_t own = alike ? 0 : rank * c.call.count * size;
        in = send.data() + (traits.recv.per_rank ? own : 0);
        out = send.data() + (traits.send.per_rank ? own : 0);
      }
      std::ranges::copy(sent[rank], in);
      // A rank need not bring what only the root needs.
      const char* const given = sends ? in : nullptr;
      char* const taken = receives ? out : nullptr;
      ASSERT_EQ(call_terse(c.call, given, taken, scheme.get(), comm, stream.get()), ncclSuccess)
          << terseGetLastError();
      stream.synchronize();
      const Bytes& want = wanted[k][rank];
      ASSERT_EQ(want.empty(), !receives);
      ASSERT_TRUE(std::ranges::equal(want, std::span(out, want.size())))
          << "rank " << rank << " call " << k;
      ASSERT_TRUE(send.intact() && recv.intact()) << "rank " << rank << " wrote past its buffers";
      const bool changed = !std::ranges::equal(sent[rank], std::span(in, sent[rank].size()));
      ASSERT_TRUE(in_place || !changed) << "sendbuff changed";
    }
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Collectives, GiveTheReferenceBytesOnEveryRank) {
  std::mt19937 random(2024);
  const int cases = trials(7 * kKinds, 2 * kKinds);
  for (int trial = 0; trial < cases && !testing::Test::HasFatalFailure(); ++trial)
    check_case(random_case(trial, random), next_ordinal(), 2);
}

TEST(Collectives, OfEveryRoot) {
  static const char* const kSchemes[] = {"minmax4", "int5:round=stochastic,algo=twoshot",
                                         "int4:algo=direct"};
  std::mt19937 random(3);
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter})
    for (const int ranks : {2, 3, 5})
      for (int root = 0; root < ranks && !testing::Test::HasFatalFailure(); ++root) {
        Case c = random_case(0, random);
        c.call.collective = collective;
        c.call.scheme = parse_scheme(kSchemes[root % 3]);
        c.call.root = root;
        c.ranks = ranks;
        check_case(c, next_ordinal(), 1);
      }
}

TEST(Collectives, OfNothing) {
  for (int collective = 0; collective < kCollectives; ++collective)
    run_ranks(3, [&](int, ncclComm_t comm) {
      const Call call{.collective = static_cast<Collective>(collective),
                      .scheme = parse_scheme("int8")};
      const SchemeHandle scheme(call.scheme);
      EXPECT_EQ(call_terse(call, nullptr, nullptr, scheme.get(), comm, nullptr), ncclSuccess)
          << terseGetLastError();
      terseCommRelease(comm);
    });
}

TEST(Collectives, ChunksDoNotChangeTheBytes) {
  std::mt19937 random(5);
  static constexpr std::array kSchemes = {"int4:round=stochastic",
                                          "minmax8:block=1024,round=shift",
                                          "mxfp4:round=stochastic,hadamard=32",
                                          "bf16:round=stochastic",
                                          "int8",
                                          "linear8",
                                          "exp8"};
  for (const char* scheme : std::span(kSchemes).first(trials(kSchemes.size(), 1)))
    for (int collective = 0; collective < kCollectives; ++collective) {
      Case c = random_case(0, random);
      c.call.collective = static_cast<Collective>(collective);
      c.call.scheme = parse_scheme(scheme);
      if (!plan::has_algorithm(c.call.collective, sharing_of(c.call.scheme.spec))) continue;
      c.call.datatype = ncclFloat32;
      c.ranks = 3;
      c.call.root = static_cast<int>(random() % 3);
      const plan::Traits& t = plan::traits(c.call.collective);
      const bool shards = t.send.per_rank || t.recv.per_rank;
      c.call.count = shards ? 1'000'003 : 3'000'017;  // several chunks
      check_case(c, next_ordinal(), 2);
    }
}

TEST(Collectives, ErrorsAreThoseOfTheCodec) {
  const struct {
    const char* scheme;
    Collective collective;
    double low, high;
  } cases[] = {
      // One quantization of Gaussian data, block 128.
      {"int8", Collective::kAllGather, 0.0065 * 0.98, 0.0065 * 1.02},
      {"int4", Collective::kAllGather, 0.117 * 0.98, 0.117 * 1.02},
      {"int4:round=stochastic", Collective::kAllGather, 0.166 * 0.98, 0.166 * 1.02},
      // Three of four contributions quantized.
      {"int4", Collective::kReduceScatter, 0.117 * 0.866 * 0.97, 0.117 * 0.866 * 1.03},
      // As to nearest, for the contributors' draws cancel; what a rank has alone errs more.
      {"int4:round=stochastic", Collective::kReduceScatter, 0.117 * 0.866 * 0.97,
       0.117 * 0.866 * 1.03},
      // And the sum once more.
      {"int4", Collective::kAllReduce, 0.1545 * 0.97, 0.1545 * 1.03},
      {"int4", Collective::kReduce, 0.1545 * 0.97, 0.1545 * 1.03},
      {"int4", Collective::kBroadcast, 0.117 * 0.98, 0.117 * 1.02},
      // Three of four shards quantized; the own one is exact.
      {"int4", Collective::kAllToAll, 0.117 * 0.866 * 0.97, 0.117 * 0.866 * 1.03},
      {"int8", Collective::kGather, 0.0065 * 0.866 * 0.97, 0.0065 * 0.866 * 1.03},
      {"mxfp4", Collective::kAllGather, 0.115 * 0.98, 0.115 * 1.02},
      {"nvfp4", Collective::kAllGather, 0.0953 * 0.98, 0.0953 * 1.02},
      {"learned4:learn=never", Collective::kAllGather, 0.0998 * 0.98, 0.0998 * 1.02},
      {"int4:block=64,scale=bf16,fit=mse", Collective::kAllGather, 0.0905 * 0.98, 0.0905 * 1.02},
      {"int4:hadamard=32", Collective::kAllGather, 0.117 * 0.98, 0.117 * 1.02},
      {"bf16", Collective::kReduceScatter, 0.00166 * 0.866 * 0.97, 0.00166 * 0.866 * 1.03},
      // Of the largest of 256 elements of 4 ranks, 31 levels; once.
      {"linear8", Collective::kAllReduce, 0.0328 * 0.98, 0.0328 * 1.02},
      {"linear16", Collective::kAllReduce, 0.0328 * 31 / 8191 * 0.98, 0.0328 * 31 / 8191 * 1.02},
      // The square root of 0.244, which exponents of one scale have, too.
      {"exp8", Collective::kAllReduce, 0.493 * 0.98, 0.493 * 1.02},
  };
  for (const auto& k : cases) {
    const Call call{.collective = k.collective, .scheme = parse_scheme(k.scheme), .count = 1 << 18};
    std::vector<Bytes> sent;
    for (int r = 0; r < 4; ++r) sent.push_back(gaussian(send_count(call, 4), ncclFloat32, r));
    const auto truth = exact(call, sent);
    next_ordinal();
    run_ranks(4, [&](int rank, ncclComm_t comm) {
      const SchemeHandle scheme(call.scheme);
      Bytes out(recv_count(call, 4) * 4);
      ASSERT_EQ(call_terse(call, sent[rank].data(), out.data(), scheme.get(), comm, nullptr),
                ncclSuccess);
      terseCommRelease(comm);
      if (plan::traits(k.collective).recv.who == plan::Who::kRoot && rank != 0) return;
      const double error = relative_error(values(out, ncclFloat32), truth[rank]);
      EXPECT_GT(error, k.low) << k.scheme << " " << name(k.collective);
      EXPECT_LT(error, k.high) << k.scheme << " " << name(k.collective);
    });
  }
}

TEST(Collectives, ANanReachesEveryRank) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const char* text : {"int8", "int4:algo=oneshot", "minmax4", "linear8:scale=bf16"}) {
      next_ordinal();
      const Call call{.scheme = parse_scheme(text), .count = 100'000};
      run_ranks(3, [&](int rank, ncclComm_t comm) {
        const SchemeHandle scheme(call.scheme);
        std::vector<float> data(call.count, 1.0f);
        if (rank == 1) data[77'777] = poison;
        ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr),
                  ncclSuccess);
        EXPECT_FALSE(std::isfinite(data[77'777])) << text;
        EXPECT_EQ(data[0], 3.0f) << text;
        terseCommRelease(comm);
      });
    }
}

TEST(Collectives, WhatIsNotFiniteIsSoInEveryResult) {
  constexpr int kRanks = 3;
  std::vector<Collective> collectives;
  for (int k = 0; k < kCollectives; ++k) collectives.push_back(static_cast<Collective>(k));
  for (const char* text : {"int8", "int4:hadamard=32", "minmax8:round=shift", "fp8e4m3", "mxfp4",
                           "nvfp4", "bf16", "learned4:learn=never"}) {
    next_ordinal();
    const std::vector<Poisoned> calls = poisoned_calls(text, collectives, kRanks);
    std::vector<std::vector<Bytes>> got(calls.size(), std::vector<Bytes>(kRanks));
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      const SchemeHandle scheme(parse_scheme(text));
      for (size_t k = 0; k < calls.size(); ++k) {
        const Call& call = calls[k].call;
        Bytes& out = got[k][rank];
        out.resize(recv_count(call, kRanks) * datatype_size(call.datatype));
        ASSERT_EQ(
            call_terse(call, calls[k].sent[rank].data(), out.data(), scheme.get(), comm, nullptr),
            ncclSuccess)
            << calls[k].describe() << ": " << terseGetLastError();
      }
      ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
    });
    for (size_t k = 0; k < calls.size(); ++k) expect_poison(calls[k], got[k]);
  }
}

TEST(Collectives, OneRankCopies) {
  run_ranks(1, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int4"));
    const std::vector<float> in = {1.5f, -2.25f, 1e30f};
    for (int k = 0; k < kCollectives; ++k) {
      const Call call{
          .collective = static_cast<Collective>(k), .scheme = parse_scheme("int4"), .count = 3};
      std::vector<float> out(3);
      ASSERT_EQ(call_terse(call, in.data(), out.data(), scheme.get(), comm, nullptr), ncclSuccess);
      EXPECT_EQ(in, out) << name(call.collective);
    }
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_ONE_RANK], static_cast<size_t>(kCollectives));
    EXPECT_EQ(stats.native_bytes, 0u);
    terseCommRelease(comm);
  });
}

// A 16-bit scheme is for fp32, and for sums of its own type.
TEST(Collectives, CastsToTheOtherSixteenBitsStayNative) {
  for (const char* text : {"bf16", "fp16:round=stochastic"})
    for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16}) {
      if ((type == ncclBfloat16) == (text[0] == 'b')) continue;
      const Call call{.scheme = parse_scheme(text), .datatype = type, .count = 1000};
      run_ranks(2, [&](int, ncclComm_t comm) {
        const SchemeHandle scheme(call.scheme);
        Bytes data = gaussian(call.count, type, 3);
        ASSERT_EQ(call_terse(call, data.data(), data.data(), scheme.get(), comm, nullptr),
                  ncclSuccess);
        const terseStats_t stats = client_stats(comm);
        EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DTYPE], 1u) << text;
        EXPECT_EQ(stats.wire_bytes, 0u) << text;
        terseCommRelease(comm);
      });
    }
}

// What NCCL averages without leaving the type, every scheme does.
TEST(Collectives, MeansOfLargeNumbersAreFinite) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 4096;
  const auto large = [](size_t i) { return i % 3 == 0 ? 7.5e37f : 1.5e38f; };
  for (const char* text : {"int8:algo=oneshot", "int8:algo=twoshot", "int4", "minmax8",
                           "minmax4:algo=twoshot,round=shift"})
    for (const auto collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
      for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16}) {
        const Call call{.collective = collective,
                        .scheme = parse_scheme(text),
                        .datatype = type,
                        .op = ncclAvg,
                        .count = kCount};
        SCOPED_TRACE(fmt::format("{} {} type {}", name(collective), text, static_cast<int>(type)));
        std::vector<float> numbers(send_count(call, kRanks));
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = large(i);
        const Bytes sent = bytes_of(numbers, type);
        run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
          const SchemeHandle scheme(call.scheme);
          Bytes out(recv_count(call, kRanks) * datatype_size(type));
          ASSERT_EQ(call_terse(call, sent.data(), out.data(), scheme.get(), comm, nullptr),
                    ncclSuccess)
              << terseGetLastError();
          ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
          if (collective == Collective::kReduce && rank != 0) return;
          const size_t first = collective == Collective::kReduceScatter ? rank * kCount : 0;
          const std::vector<double> got = values(out, type);
          const double bound = call.scheme.spec.bits == 8 ? 0.02 : 0.35;
          for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i] / large(first + i), 1, bound) << "rank " << rank << " " << i;
        });
        next_ordinal();
      }
}

}  // namespace
}  // namespace terse::test
