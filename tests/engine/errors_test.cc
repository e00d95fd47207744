// Bad input gets a named error; nothing is written, nobody hangs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>

#include "backend/host.h"
#include "base/error.h"
#include "client_stats.h"
#include "codec/container.h"
#include "policy/reasons.h"
#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

void expect_error(ncclResult_t result, ncclResult_t wanted, const char* part) {
  EXPECT_EQ(result, wanted) << part;
  EXPECT_NE(std::string(terseGetLastError()).find(part), std::string::npos) << terseGetLastError();
}

// In place.
ncclResult_t sum(std::vector<float>& x, const terseScheme_t* scheme, ncclComm_t comm) {
  return terseAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, scheme, comm, nullptr);
}

TEST(Errors, ArgumentsOfCollectives) {
  run_ranks(2, [&](int, ncclComm_t comm) {
    const SchemeHandle handle(parse_scheme("int8"));
    const terseScheme_t* scheme = handle.get();
    std::vector<float> in(64, 1.0f), out(64, 7.0f);
    const auto reduce = [&](const void* a, void* b, size_t count, int type, int op,
                            const terseScheme_t* s, ncclComm_t c) {
      return terseAllReduce(a, b, count, static_cast<ncclDataType_t>(type),
                            static_cast<ncclRedOp_t>(op), s, c, nullptr);
    };
    expect_error(reduce(nullptr, out.data(), 64, 7, 0, scheme, comm), ncclInvalidArgument,
                 "sendbuff");
    expect_error(reduce(in.data(), nullptr, 64, 7, 0, scheme, comm), ncclInvalidArgument,
                 "recvbuff");
    expect_error(reduce(in.data(), out.data(), 64, 7, 0, nullptr, comm), ncclInvalidArgument,
                 "scheme");
    expect_error(reduce(in.data(), out.data(), 64, 7, 0, scheme, nullptr), ncclInvalidArgument,
                 "communicator is null");
    expect_error(reduce(in.data(), out.data(), 64, 12, 0, scheme, comm), ncclInvalidArgument,
                 "unknown datatype 12");
    expect_error(reduce(in.data(), out.data(), 64, -1, 0, scheme, comm), ncclInvalidArgument,
                 "unknown datatype");
    expect_error(reduce(in.data(), out.data(), 64, 7, -2, scheme, comm), ncclInvalidArgument,
                 "unknown operation");
    expect_error(reduce(in.data(), out.data(), static_cast<size_t>(-5), 7, 0, scheme, comm),
                 ncclInvalidArgument, "a count of");
    EXPECT_EQ(out, std::vector<float>(64, 7.0f));
    EXPECT_EQ(reduce(nullptr, nullptr, 0, 7, 0, scheme, comm), ncclSuccess) << "nothing to do";
    terseCommRelease(comm);
  });
}

TEST(Errors, RootsAndWhatTheyNeed) {
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle int8(parse_scheme("int8"));
    const terseScheme_t* s = int8.get();
    std::vector<float> in(300, 1.0f), out(300, 7.0f);
    float *const a = in.data(), *const b = out.data();
    const ncclDataType_t type = ncclFloat32;
    const struct {
      std::function<ncclResult_t()> call;
      const char* part;
    } cases[] = {
        {[&] { return terseBroadcast(a, b, 100, type, 3, s, comm, nullptr); },
         "root 3 is not one of 3 ranks"},
        {[&] { return terseReduce(a, b, 100, type, ncclSum, -1, s, comm, nullptr); },
         "root -1 is not"},
        {[&] { return terseGather(a, b, 100, type, 3, s, comm, nullptr); }, "root 3 is not"},
        {[&] { return terseScatter(a, b, 100, type, 3, s, comm, nullptr); }, "root 3 is not"},
        {[&] { return terseSend(a, 100, type, 3, s, comm, nullptr); }, "peer 3 is not"},
        {[&] { return terseRecv(b, 100, type, -1, s, comm, nullptr); }, "peer -1 is not"},
        {[&] { return terseBroadcast(nullptr, b, 100, type, rank, s, comm, nullptr); }, "sendbuff"},
        {[&] { return terseBroadcast(a, nullptr, 100, type, 0, s, comm, nullptr); }, "recvbuff"},
        {[&] { return terseReduce(nullptr, b, 100, type, ncclSum, 0, s, comm, nullptr); },
         "sendbuff"},
        {[&] { return terseReduce(a, nullptr, 100, type, ncclSum, rank, s, comm, nullptr); },
         "recvbuff"},
        {[&] {
           return terseReduce(a, b, 100, type, static_cast<ncclRedOp_t>(-1), 0, s, comm, nullptr);
         },
         "unknown operation"},
        {[&] { return terseGather(a, nullptr, 100, type, rank, s, comm, nullptr); }, "recvbuff"},
        {[&] { return terseScatter(nullptr, b, 100, type, rank, s, comm, nullptr); }, "sendbuff"},
        {[&] { return terseAllToAll(a, nullptr, 100, type, s, comm, nullptr); }, "recvbuff"},
        {[&] { return terseSend(nullptr, 100, type, 0, s, comm, nullptr); }, "sendbuff"},
        {[&] { return terseRecv(nullptr, 100, type, 0, s, comm, nullptr); }, "recvbuff"},
        {[&] { return terseSend(a, 100, static_cast<ncclDataType_t>(12), 0, s, comm, nullptr); },
         "datatype"},
        {[&] { return terseRecv(b, 100, type, 0, nullptr, comm, nullptr); }, "scheme is null"},
        {[&] { return terseGather(a, b, 100, type, 0, s, nullptr, nullptr); },
         "communicator is null"},
    };
    for (const auto& k : cases) expect_error(k.call(), ncclInvalidArgument, k.part);
    EXPECT_EQ(in, std::vector<float>(300, 1.0f));
    EXPECT_EQ(out, std::vector<float>(300, 7.0f));
    terseCommRelease(comm);
  });
}

TEST(Errors, SchemesThatDifferBetweenRanksAreAnErrorOnEach) {
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme(rank == 1 ? "int4" : "int8"));
    std::vector<float> data(1000, 1.0f);
    expect_error(sum(data, scheme.get(), comm), ncclInvalidUsage,
                 rank == 1 ? "rank 0 is \"int8" : "rank 1 is \"int4");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    terseCommRelease(comm);
  });
}

// Its ranks may have made the call, in groups of their own.
TEST(Errors, ACommunicatorBesideOneThatDisagreesIsRefused) {
  run_ranks(2, [&](int rank, ncclComm_t one) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
    const SchemeHandle int8(parse_scheme("int8")), own(parse_scheme(rank == 1 ? "int4" : "int8"));
    std::vector<float> data(1000, 1.0f), more(1000, 1.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(sum(data, int8.get(), one), ncclSuccess);
    EXPECT_EQ(sum(more, own.get(), other), ncclSuccess);
    expect_error(terseGroupEnd(), ncclInvalidUsage,
                 rank == 1 ? "rank 0 is \"int8" : "rank 1 is \"int4");
    expect_error(sum(data, int8.get(), one), ncclInvalidUsage, "may be at different calls");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    EXPECT_EQ(sum(more, int8.get(), other), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(more, std::vector<float>(1000, 2.0f));
    for (const ncclComm_t comm : {one, other}) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// The same where its calls are messages that stay native.
TEST(Errors, NativeMessagesBesideACommunicatorThatDisagreesAreRefused) {
  run_ranks(2, [&](int rank, ncclComm_t one) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
    const SchemeHandle int8(parse_scheme("int8")), own(parse_scheme(rank == 1 ? "int4" : "int8"));
    std::vector<float> data(1000, 1.0f), more(1000, 1.0f);
    std::vector<int32_t> out(10, 1), in(10);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(terseSend(out.data(), 10, ncclInt32, 1 - rank, int8.get(), one, nullptr),
              ncclSuccess);
    EXPECT_EQ(terseRecv(in.data(), 10, ncclInt32, 1 - rank, int8.get(), one, nullptr), ncclSuccess);
    EXPECT_EQ(sum(more, own.get(), other), ncclSuccess);
    expect_error(terseGroupEnd(), ncclInvalidUsage,
                 rank == 1 ? "rank 0 is \"int8" : "rank 1 is \"int4");
    expect_error(sum(data, int8.get(), one), ncclInvalidUsage, "may be at different calls");
    EXPECT_EQ(in, std::vector<int32_t>(10));
    EXPECT_EQ(sum(more, int8.get(), other), ncclSuccess) << terseGetLastError();
    for (const ncclComm_t comm : {one, other}) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// The refused call is so on all ranks of its communicator, but those of the other one may have
// made theirs, in groups of their own.
TEST(Errors, ACommunicatorBesideOneWhoseCallIsRefusedIsRefused) {
  run_ranks(2, [&](int rank, ncclComm_t one) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
    const SchemeHandle int8(parse_scheme("int8"));
    std::vector<float> data(1000, 1.0f), more(1000, 1.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(sum(data, int8.get(), one), ncclSuccess);
    EXPECT_EQ(sum(more, int8.get(), other), ncclSuccess);
    EXPECT_EQ(sum(more, nullptr, other), ncclInvalidArgument);
    expect_error(terseGroupEnd(), ncclInvalidArgument, "the scheme is null");
    expect_error(sum(data, int8.get(), one), ncclInvalidArgument, "may be at different calls");
    expect_error(sum(data, int8.get(), one), ncclInvalidArgument, "the scheme is null");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    EXPECT_EQ(sum(more, int8.get(), other), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(more, std::vector<float>(1000, 2.0f));
    for (const ncclComm_t comm : {one, other}) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// As NCCL does.
TEST(Errors, AnArgumentThatCannotBeRightDropsItsGroupAlone) {
  run_ranks(2, [&](int rank, ncclComm_t one) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
    const SchemeHandle int8(parse_scheme("int8"));
    std::vector<float> data(1000, 1.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(sum(data, int8.get(), one), ncclSuccess);
    EXPECT_EQ(terseAllReduce(nullptr, data.data(), 1000, ncclFloat32, ncclSum, int8.get(), other,
                             nullptr),
              ncclInvalidArgument);
    expect_error(terseGroupEnd(), ncclInvalidArgument, "sendbuff is null");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    for (const ncclComm_t comm : {one, other})
      EXPECT_EQ(sum(data, int8.get(), comm), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(data, std::vector<float>(1000, 4.0f));
    for (const ncclComm_t comm : {one, other}) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

// The program may look at the end of a group alone.
TEST(Errors, NoSchemeIsTheErrorOfItsGroup) {
  run_ranks(2, [&](int, ncclComm_t comm) {
    const SchemeHandle int8(parse_scheme("int8"));
    std::vector<float> data(1000, 1.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(sum(data, int8.get(), comm), ncclSuccess);
    EXPECT_EQ(sum(data, nullptr, comm), ncclInvalidArgument);
    expect_error(terseGroupEnd(), ncclInvalidArgument, "the scheme is null");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Of a group's two schemes one differs: with the other the ranks work, and know each other.
TEST(Errors, OneSchemeOfAGroupThatDiffersLeavesTheOther) {
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle one(parse_scheme(rank == 1 ? "int4" : "int8"));
    const SchemeHandle other(parse_scheme("minmax8"));
    std::vector<float> data(1000, 1.0f), more(1000, 1.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(sum(data, one.get(), comm), ncclSuccess);
    EXPECT_EQ(sum(more, other.get(), comm), ncclSuccess);
    expect_error(terseGroupEnd(), ncclInvalidUsage,
                 rank == 1 ? "rank 0 is \"int8" : "rank 1 is \"int4");
    EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    EXPECT_EQ(sum(more, other.get(), comm), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(more, std::vector<float>(1000, 3.0f));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Errors, BypassesAreExactAndCounted) {
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle int8(parse_scheme("int8")), off(parse_scheme("off"));
    std::vector<double> d(100, 1.0 / 3 + rank);
    std::vector<float> f(100, 0.1f * static_cast<float>(rank + 1));
    ASSERT_EQ(
        terseAllReduce(d.data(), d.data(), 100, ncclFloat64, ncclSum, int8.get(), comm, nullptr),
        ncclSuccess);
    EXPECT_DOUBLE_EQ(d[99], 4.0);
    ASSERT_EQ(
        terseAllReduce(f.data(), f.data(), 100, ncclFloat32, ncclMax, int8.get(), comm, nullptr),
        ncclSuccess);
    EXPECT_EQ(f[5], 0.1f * 3.0f);
    ASSERT_EQ(sum(f, off.get(), comm), ncclSuccess);
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.calls, 0u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DTYPE], 1u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_OP], 1u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_OFF], 1u);
    EXPECT_EQ(stats.native_bytes, 2 * (800 * 2 / 3) + 2 * 2 * (400 * 2 / 3));
    terseCommRelease(comm);
  });
}

// Where NCCL is older than a collective, what stands for it gives the same.
TEST(Errors, BypassesOfEveryCollectiveAreExact) {
  constexpr int kRanks = 4, kRoot = 2;
  constexpr size_t kCount = 25;
  for (const char* text : {"int8", "off"})
    for (size_t k = 0; k <= static_cast<size_t>(plan::Collective::kScatter); ++k) {
      const auto collective = static_cast<plan::Collective>(k);
      const bool off = std::string(text) == "off";
      const Call call{.collective = collective,
                      .scheme = parse_scheme(text),
                      .datatype = off ? ncclFloat32 : ncclFloat64,
                      .count = kCount,
                      .root = kRoot};
      const auto value = [&](int rank, size_t i) {
        return 1000 * (rank + 1) + static_cast<int>(i);
      };
      // The first element of what each rank gets.
      const auto first = [&](int rank) {
        switch (collective) {
          case plan::Collective::kAllGather:
          case plan::Collective::kGather:
            return value(0, 0);
          case plan::Collective::kAllToAll:
            return value(0, rank * kCount);
          case plan::Collective::kBroadcast:
            return value(kRoot, 0);
          case plan::Collective::kScatter:
            return value(kRoot, rank * kCount);
          case plan::Collective::kReduceScatter:
            return 10'000 + static_cast<int>(4 * rank * kCount);
          default:
            return 10'000;
        }
      };
      run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
        const SchemeHandle scheme(call.scheme);
        const plan::Position at{kRanks, rank, kRoot};
        const auto run = [&]<class T>(T) {
          std::vector<T> in(send_count(call, kRanks)), out(recv_count(call, kRanks), T{-1});
          for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(value(rank, i));
          ASSERT_EQ(call_terse(call, in.data(), out.data(), scheme.get(), comm, nullptr),
                    ncclSuccess)
              << terseGetLastError();
          const bool receives = plan::extent(plan::traits(collective).recv, at) != 0;
          EXPECT_EQ(out[0], receives ? first(rank) : T{-1}) << name(collective);
        };
        if (off)
          run(float{});
        else
          run(double{});
        const terseStats_t stats = client_stats(comm);
        EXPECT_EQ(stats.bypasses[off ? TERSE_BYPASS_OFF : TERSE_BYPASS_DTYPE], 1u);
        EXPECT_EQ(stats.native_bytes,
                  plan::raw_bytes(collective, kCount * datatype_size(call.datatype), at));
        terseCommRelease(comm);
      });
    }
}

TEST(Errors, StatisticsCountTheBytesSent) {
  run_ranks(4, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int4"));
    std::vector<float> data(1 << 20, 1.0f);
    for (int k = 0; k < 3; ++k)
      ASSERT_EQ(terseAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclAvg,
                               scheme.get(), comm, nullptr),
                ncclSuccess);
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.calls, 3u);
    EXPECT_EQ(stats.raw_bytes, 3 * 2 * 3 * (size_t{4} << 20) / 4);
    EXPECT_EQ(stats.wire_bytes, 3 * 2 * 3 * (size_t{1} << 20) / 4 * 17 / 32);  // 4.25 bits
    EXPECT_GT(stats.scratch_bytes, 0u);
    terseStats_t old{.size = 2 * sizeof(size_t)};  // a caller with an older, shorter struct
    old.raw_bytes = 99;
    ASSERT_EQ(terseCommGetStats(comm, &old), ncclSuccess);
    EXPECT_EQ(old.calls, 3u);
    EXPECT_EQ(old.raw_bytes, 99u) << "nothing is written past the caller's struct";
    terseCommRelease(comm);
  });
}

TEST(Errors, StatisticsOfBroadcastAndMessages) {
  run_ranks(4, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int4"));
    constexpr size_t kCount = 3 << 18;
    constexpr size_t kRaw = 4 * kCount, kWire = kCount * 17 / 32;  // 4.25 bits
    std::vector<float> data(kCount, 1.0f);
    const auto check = [&](size_t calls, size_t raw, size_t wire) {
      const terseStats_t stats = client_stats(comm);
      EXPECT_EQ(stats.calls, calls);
      EXPECT_EQ(stats.raw_bytes, raw);
      EXPECT_EQ(stats.wire_bytes, wire);
    };
    ASSERT_EQ(terseBroadcast(data.data(), data.data(), kCount, ncclFloat32, 1, scheme.get(), comm,
                             nullptr),
              ncclSuccess);
    const size_t raw = rank == 0 ? 0 : kRaw, wire = rank == 1 ? kWire : kWire * 2 / 3;
    check(1, raw, wire);
    ncclResult_t result = ncclSuccess;
    if (rank == 3)
      result = terseSend(data.data(), kCount, ncclFloat32, 2, scheme.get(), comm, nullptr);
    if (rank == 2)
      result = terseRecv(data.data(), kCount, ncclFloat32, 3, scheme.get(), comm, nullptr);
    ASSERT_EQ(result, ncclSuccess) << terseGetLastError();
    check(rank >= 2 ? 2 : 1, rank == 3 ? raw + kRaw : raw, rank == 3 ? wire + kWire : wire);
    terseCommRelease(comm);
  });
}

TEST(Errors, EncodeAndDecode) {
  const SchemeHandle handle(parse_scheme("minmax4:block=64")), off(parse_scheme("off"));
  const terseScheme_t* scheme = handle.get();
  std::vector<float> in(1000), out(1000, 7.0f);
  for (int i = 0; i < 1000; ++i) in[i] = static_cast<float>(i % 17);
  size_t bytes = 0;
  ASSERT_EQ(terseEncodedSize(scheme, 1000, ncclFloat32, &bytes), ncclSuccess);
  EXPECT_EQ(bytes, codec::kHeaderBytes + 500 + 16 * 8);
  std::vector<char> packed(bytes);
  expect_error(terseEncode(in.data(), 1000, ncclFloat32, scheme, 0, packed.data(), bytes - 1),
               ncclInvalidArgument, "bytes are needed");
  expect_error(terseEncode(in.data(), 1000, ncclInt32, scheme, 0, packed.data(), bytes),
               ncclInvalidArgument, "datatype 2");
  expect_error(terseEncode(nullptr, 1000, ncclFloat32, scheme, 0, packed.data(), bytes),
               ncclInvalidArgument, "data is null");
  expect_error(terseEncode(in.data(), 1000, ncclFloat32, off.get(), 0, packed.data(), bytes),
               ncclInvalidArgument, "off");
  expect_error(terseEncode(in.data(), SIZE_MAX, ncclFloat32, scheme, 0, packed.data(), bytes),
               ncclInvalidArgument, "count");
  ASSERT_EQ(terseEncode(in.data(), 1000, ncclFloat32, scheme, 0, packed.data(), bytes),
            ncclSuccess);
  expect_error(terseDecode(packed.data(), bytes - 4, out.data(), 1000, ncclFloat32),
               ncclInvalidArgument, "its size");
  expect_error(terseDecode(packed.data(), bytes, out.data(), 999, ncclFloat32), ncclInvalidArgument,
               "holds 1000 elements, not 999");
  packed[100] ^= 1;
  expect_error(terseDecode(packed.data(), bytes, out.data(), 1000, ncclFloat32),
               ncclInvalidArgument, "damaged");
  packed[100] ^= 1;
  EXPECT_EQ(out, std::vector<float>(1000, 7.0f));
  ASSERT_EQ(terseDecode(packed.data(), bytes, out.data(), 1000, ncclFloat32), ncclSuccess);
  for (int i = 0; i < 1000; ++i) ASSERT_NEAR(out[i], in[i], 16.0 / 15 / 2 * 1.001);
}

TEST(Errors, NullPointersOfTheRest) {
  int version = 0;
  terseScheme_t* scheme = reinterpret_cast<terseScheme_t*>(&version);
  char text[8];
  expect_error(terseSchemeParse(nullptr, &scheme), ncclInvalidArgument, "text is null");
  EXPECT_EQ(scheme, nullptr);
  expect_error(terseSchemeParse("int8", nullptr), ncclInvalidArgument, "scheme is null");
  expect_error(terseGetVersion(nullptr), ncclInvalidArgument, "version is null");
  expect_error(terseCommGetStats(nullptr, nullptr), ncclInvalidArgument, "communicator is null");
  const SchemeHandle int8(parse_scheme("int8"));
  expect_error(terseSchemePrint(int8.get(), text, sizeof text), ncclInvalidArgument,
               "bytes are needed");
  expect_error(terseDecode(nullptr, 10, text, 1, ncclFloat32), ncclInvalidArgument,
               "packed is null");
  terseSchemeDestroy(nullptr);
  EXPECT_STREQ(bypass_reason(99), "unknown");
}

// So that all ranks can call NCCL instead.
TEST(Errors, MemoryThatTheHostLacksIsOne) {
  const std::unique_ptr<Backend> host = make_host_backend(nccl_library(""));
  constexpr size_t kMore = size_t{1} << 55;
  try {
    host->allocate(kMore);
    ADD_FAILURE() << "it was there";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclSystemError);
    EXPECT_NE(e.message.find(std::to_string(kMore) + " B"), std::string::npos) << e.message;
  }
}

// On the caller's stream too, where results that cannot be right would otherwise pass for sums.
TEST(Errors, AnAbortedPeerEndsAsAnErrorOnTheOthers) {
  for (const bool null_stream : {true, false}) {
    std::latch reduced(3);
    std::atomic<int> failed = 0;
    const auto body = [&](int rank, ncclComm_t comm) {
      const SchemeHandle scheme(parse_scheme("int8"));
      std::vector<float> data(1 << 20, 1.0f);
      const HostStream stream(null_stream);
      const auto reduce = [&] {
        const ncclResult_t result =
            terseAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
                           scheme.get(), comm, stream.get());
        return result == ncclSuccess ? stream.synchronize() : result;
      };
      EXPECT_EQ(reduce(), ncclSuccess);
      reduced.arrive_and_wait();
      if (rank == 1) {
        terseCommRelease(comm);  // the next communicator may have its address
        throw std::runtime_error("leaves");
      }
      // As PyTorch does it. What fails is told by the end of the group then.
      if (rank == 2) terseGroupStart();
      ncclResult_t result = reduce();
      if (rank == 2) result = terseGroupEnd();
      failed += result != ncclSuccess || (!null_stream && stream.synchronize() != ncclSuccess);
      const std::string message = terseGetLastError(), cause = ncclGetLastError(comm);
      if (null_stream) {
        const char* const function = rank == 2 ? "terseGroupEnd" : "terseAllReduce";
        for (const std::string& part :
             {fmt::format("{}: communicator #", function), fmt::format("rank {} of 3: ", rank),
              std::string(" gave "), std::string(" (AllReduce)")})
          EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
      }
      // Of the rank that has gone, of the connection to it, or of this rank's own communicator:
      // once a rank has thrown run_ranks() aborts them all.
      EXPECT_TRUE(cause.find(" gave up: ") != std::string::npos ||
                  cause.find(" failed: ") != std::string::npos ||
                  cause.find("rank 1 has left") != std::string::npos ||
                  cause.find("the connection to rank ") != std::string::npos || cause == "aborted")
          << cause;
      terseCommRelease(comm);
      throw std::runtime_error("gives up, too");
    };
    try {
      run_ranks(3, body);
    } catch (const std::runtime_error& e) {
      // The others may learn of it by its window, and be first.
      const std::string first = e.what();
      EXPECT_TRUE(first == "leaves" || first == "gives up, too") << first;
    }
    EXPECT_EQ(failed, 2);
  }
}

}  // namespace
}  // namespace terse::test
