// An NCCL program under the preload library. What it must see depends on EXPECT_SCHEME, the scheme
// that the test was started with: the reference's bytes for large sums of floats, NCCL's own exact
// results for everything else.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "clients.h"
#include "nccl_client.h"
#include "ranks.h"
#include "reference.h"
#include "terse/terse.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr size_t kMinBytes = 4096;

Scheme scheme() { return parse_scheme(std::getenv("EXPECT_SCHEME")); }

class Interpose : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("EXPECT_SCHEME") == nullptr)
      FAIL() << "run this program by ctest, which preloads the library";
  }
};

// Small whole numbers: exact in every dtype and order of summation.
Bytes whole_numbers(size_t count, unsigned seed) {
  Bytes bytes(count * 4);
  for (size_t i = 0; i < count; ++i) {
    const float x = static_cast<float>((i * 7 + seed * 13) % 10);
    std::memcpy(bytes.data() + 4 * i, &x, 4);
  }
  return bytes;
}

bool compressed(const Call& call, int ranks) {
  const size_t elements = std::max(send_count(call, ranks), recv_count(call, ranks));
  return !scheme().off && elements * datatype_size(call.datatype) >= kMinBytes;
}

TEST_F(Interpose, CollectivesAreCompressedFromTheSizeFloorOn) {
  const int ranks = 3;
  for (const size_t count : {size_t{10}, size_t{341}, size_t{1024}, size_t{50'000}})
    for (int k = 0; k < 3; ++k) {
      Call call{.collective = static_cast<Collective>(k), .scheme = scheme(), .count = count};
      call.ordinal = next_ordinal();
      call.preloaded = true;
      const bool lossy = compressed(call, ranks);
      std::vector<Bytes> sent;
      for (int r = 0; r < ranks; ++r)
        sent.push_back(lossy ? gaussian(send_count(call, ranks), ncclFloat32, r)
                             : whole_numbers(send_count(call, ranks), r));
      const auto want = lossy ? expected(call, sent) : std::vector<Bytes>();
      const auto truth = exact(call, sent);
      run_ranks(ranks, [&](int rank, ncclComm_t comm) {
        Bytes out(recv_count(call, ranks) * 4);
        ASSERT_EQ(call_nccl(call, sent[rank].data(), out.data(), comm, nullptr), ncclSuccess)
            << ncclGetLastError(comm);
        if (lossy)
          ASSERT_EQ(out, want[rank]) << name(call.collective) << " " << count;
        else
          ASSERT_EQ(values(out, ncclFloat32), truth[rank]) << name(call.collective) << " " << count;
      });
    }
}

TEST_F(Interpose, EverythingElseIsExact) {
  next_ordinal();
  run_ranks(4, [&](int rank, ncclComm_t comm) {
    const size_t count = 10'000;
    std::vector<int32_t> integers(count, rank + 1);
    ASSERT_EQ(
        ncclAllReduce(integers.data(), integers.data(), count, ncclInt32, ncclSum, comm, nullptr),
        ncclSuccess);
    EXPECT_EQ(integers, std::vector<int32_t>(count, 10));
    std::vector<float> floats(count, 0.1f * static_cast<float>(rank));
    ASSERT_EQ(
        ncclAllReduce(floats.data(), floats.data(), count, ncclFloat32, ncclMax, comm, nullptr),
        ncclSuccess);
    EXPECT_EQ(floats, std::vector<float>(count, 0.1f * 3.0f));
    std::vector<double> doubles(count, 1.0 / 3);
    ASSERT_EQ(
        ncclAllReduce(doubles.data(), doubles.data(), count, ncclFloat64, ncclSum, comm, nullptr),
        ncclSuccess);
    EXPECT_DOUBLE_EQ(doubles[17], 4.0 / 3);
    std::vector<float> told(count, rank == 2 ? 0.7f : 0.0f);
    ASSERT_EQ(ncclBroadcast(told.data(), told.data(), count, ncclFloat32, 2, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(told, std::vector<float>(count, 0.7f));
  });
}

TEST_F(Interpose, ASimulatedGroupRunsNothingAndIsOver) {
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const std::vector<float> data(20'000, static_cast<float>(rank + 1));
    std::vector<float> out(data.size(), -1.0f);
    const auto sum = [&] {
      ASSERT_EQ(
          ncclAllReduce(data.data(), out.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr),
          ncclSuccess);
    };
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    sum();
    ASSERT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(out, std::vector<float>(data.size(), -1.0f));
    sum();  // at once, for there is no group any more
    EXPECT_EQ(out, std::vector<float>(data.size(), 3.0f));  // constant: exact
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
  });
}

template <class Function>
Function preloads(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

decltype(&tersePreloadExclude) preload_exclude() {
  return preloads<decltype(&tersePreloadExclude)>("tersePreloadExclude");
}

// NCCL's own threads say something where other ranks give up, as they may because of our failure.
TEST_F(Interpose, WhatNcclSaysLaterDoesNotHideOurFailure) {
  if (scheme().off) return;  // and nothing fails
  const terseRange_t range{0, 1};
  ASSERT_EQ(preload_exclude()(nullptr, 1, &range, 1), ncclInvalidArgument);
  const std::string ours = ncclGetLastError(nullptr);
  EXPECT_NE(ours.find("tersePreloadExclude"), std::string::npos) << ours;
  int count = 0;
  ASSERT_NE(ncclCommCount(nullptr, &count), ncclSuccess);
  const std::string both = ncclGetLastError(nullptr);
  EXPECT_NE(both.find("ncclCommCount"), std::string::npos) << both;
  EXPECT_TRUE(both.ends_with("; before: " + ours)) << both;
  // A call that went through us is NCCL's failure alone.
  ASSERT_NE(ncclAllReduce(&count, &count, 1, ncclInt32, ncclSum, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("before"), std::string::npos);
}

TEST_F(Interpose, WhatIsExcludedIsExact) {
  const auto exclude = preload_exclude();
  ASSERT_NE(exclude, nullptr);
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    constexpr size_t kCount = 10'000;
    const terseRange_t range{1'000, 200};
    ASSERT_EQ(exclude(comm, kCount, &range, 1), ncclSuccess) << ncclGetLastError(comm);
    std::vector<float> data(kCount), truth(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      data[i] = static_cast<float>(i % 97 + rank);
      truth[i] = static_cast<float>(2 * (i % 97) + 1);
    }
    ASSERT_EQ(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclSum, comm, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(data == truth, scheme().off);
    EXPECT_TRUE(std::equal(&data[1'000], &data[1'200], &truth[1'000]));
    if (scheme().off) return;
    const terseRange_t beyond{kCount, 1};
    EXPECT_EQ(exclude(comm, kCount, &beyond, 1), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("tersePreloadExclude"), std::string::npos);
  });
}

TEST_F(Interpose, ThePreloadLibraryTellsOfItself) {
  const auto stats_of = preloads<decltype(&tersePreloadStats)>("tersePreloadStats");
  ASSERT_NE(stats_of, nullptr);
  EXPECT_EQ(preloads<decltype(&tersePreloadVersion)>("tersePreloadVersion")(), TERSE_VERSION_CODE);
  const std::string policy = preloads<decltype(&tersePreloadPolicy)>("tersePreloadPolicy")();
  EXPECT_EQ(policy == "off", scheme().off);
  EXPECT_NE(policy.find(print_scheme(scheme())), std::string::npos) << policy;
  next_ordinal();
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(10'000, 1.0f);
    for (const size_t count : {data.size(), data.size(), size_t{10}})
      ASSERT_EQ(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr),
                ncclSuccess);
    terseStats_t stats{.size = sizeof stats};
    ASSERT_EQ(stats_of(comm, &stats), ncclSuccess);
    EXPECT_EQ(stats.size, sizeof stats);
    EXPECT_EQ(stats.calls, scheme().off ? 0u : 2u);
    EXPECT_EQ(stats.raw_bytes, scheme().off ? 0u : 2 * 40'000u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_SMALL], scheme().off ? 0u : 1u);
    terseStats_t old{.size = 2 * sizeof(size_t)};  // a caller with an older, shorter struct
    old.raw_bytes = 99;
    ASSERT_EQ(stats_of(comm, &old), ncclSuccess);
    EXPECT_EQ(old.calls, stats.calls);
    EXPECT_EQ(old.raw_bytes, 99u) << "nothing is written past the caller's struct";
    EXPECT_EQ(stats_of(comm, nullptr), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("tersePreloadStats"), std::string::npos);
  });
}

// As one that was destroyed, or was never made.
TEST_F(Interpose, ThePreloadLibraryRefusesWhatIsNoCommunicator) {
  ncclComm_t gone = nullptr;
  next_ordinal();
  run_ranks(1, [&](int, ncclComm_t comm) {
    terseStats_t stats{.size = sizeof stats};
    EXPECT_EQ(preloads<decltype(&tersePreloadStats)>("tersePreloadStats")(comm, &stats),
              ncclSuccess);
    gone = comm;
  });
  const auto expect_refused = [&](const char* function, ncclResult_t result) {
    EXPECT_EQ(result, ncclInvalidArgument) << function;
    EXPECT_EQ(
        std::string(ncclGetLastError(nullptr)),
        std::string(function) + ": there is no such communicator: it was destroyed, or is none");
  };
  terseStats_t stats{.size = sizeof stats, .calls = 7};
  size_t bytes = 7;
  const auto call = [&](const char* function, auto type, auto... args) {
    expect_refused(function, preloads<decltype(type)>(function)(args...));
  };
  call("tersePreloadStats", decltype(&tersePreloadStats){}, gone, &stats);
  call("tersePreloadGetLevels", decltype(&tersePreloadGetLevels){}, gone, nullptr, size_t{0},
       &bytes);
  call("tersePreloadSetLevels", decltype(&tersePreloadSetLevels){}, gone, "");
  call("tersePreloadExclude", decltype(&tersePreloadExclude){}, gone, size_t{8}, nullptr,
       size_t{0});
  call("tersePreloadPause", decltype(&tersePreloadPause){}, gone, 1);
  EXPECT_EQ(stats.calls, 7u);
  EXPECT_EQ(bytes, 7u);
  EXPECT_EQ(preloads<decltype(&tersePreloadPause)>("tersePreloadPause")(gone, 0), ncclSuccess);
}

TEST_F(Interpose, GroupsMixNativeAndCompressedCalls) {
  const int ranks = 3;
  const Call call{
      .scheme = scheme(), .count = 20'000, .ordinal = next_ordinal(), .preloaded = true};
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r)
    sent.push_back(compressed(call, ranks) ? gaussian(call.count, ncclFloat32, r)
                                           : whole_numbers(call.count, r));
  const auto want = compressed(call, ranks) ? expected(call, sent) : std::vector<Bytes>();
  const auto truth = exact(call, sent);
  std::vector<ncclComm_t> comms(ranks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), ranks, nullptr), ncclSuccess);
  std::vector<Bytes> out(ranks, Bytes(call.count * 4));
  std::vector<int64_t> sums(ranks, 5);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < ranks; ++r) {
    ASSERT_EQ(call_nccl(call, sent[r].data(), out[r].data(), comms[r], nullptr), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(&sums[r], &sums[r], 1, ncclInt64, ncclSum, comms[r], nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(sums[r], 15);
    if (compressed(call, ranks))
      EXPECT_EQ(out[r], want[r]);
    else
      EXPECT_EQ(values(out[r], ncclFloat32), truth[r]);
    ncclCommDestroy(comms[r]);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Interpose, CommunicatorsMadeInAGroupAndBySplitting) {
  next_ordinal();
  next_ordinal();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<ncclComm_t> comms(4), halves(4);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 4; ++r) ASSERT_EQ(ncclCommInitRank(&comms[r], 4, id, r), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 4; ++r)
    ASSERT_EQ(ncclCommSplit(comms[r], r == 3 ? NCCL_SPLIT_NOCOLOR : 0, r, &halves[r], nullptr),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(halves[3], nullptr);
  std::vector<std::vector<float>> data(3, std::vector<float>(5000, 1.25f));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 3; ++r)
    ASSERT_EQ(ncclAllReduce(data[r].data(), data[r].data(), 5000, ncclFloat32, ncclSum, halves[r],
                            nullptr),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (const auto& d : data) EXPECT_EQ(d, std::vector<float>(5000, 3.75f));  // constant: exact
  for (int r = 0; r < 4; ++r) {
    if (halves[r] != nullptr) ncclCommDestroy(halves[r]);
    ncclCommDestroy(comms[r]);
  }
}

// Calls may say that they are in progress; what they give is the same.
TEST_F(Interpose, NonBlockingCommunicators) {
  const int ranks = 3;
  const Call call{
      .scheme = scheme(), .count = 20'000, .ordinal = next_ordinal(), .preloaded = true};
  const bool lossy = compressed(call, ranks);
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r)
    sent.push_back(lossy ? gaussian(call.count, ncclFloat32, r) : whole_numbers(call.count, r));
  const auto want = lossy ? expected(call, sent) : std::vector<Bytes>();
  const auto truth = exact(call, sent);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(config, rank, ranks, id);
    Bytes out(call.count * 4);
    cudaStream_t stream;
    ASSERT_EQ(hostncclStreamCreate(&stream), ncclSuccess);
    ncclResult_t state = call_nccl(call, sent[rank].data(), out.data(), comm, stream);
    while (state == ncclInProgress) usleep(100), ncclCommGetAsyncError(comm, &state);
    ASSERT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(hostncclStreamSynchronize(stream), ncclSuccess);
    if (lossy)
      EXPECT_EQ(out, want[rank]);
    else
      EXPECT_EQ(values(out, ncclFloat32), truth[rank]);
    // Beside a native call of the same group.
    std::vector<float> data(5000, 1.25f);
    int64_t sum = 5;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ncclAllReduce(&sum, &sum, 1, ncclInt64, ncclSum, comm, stream);
    ncclAllReduce(data.data(), data.data(), 5000, ncclFloat32, ncclSum, comm, stream);
    for (state = ncclGroupEnd(); state == ncclInProgress;) ncclCommGetAsyncError(comm, &state);
    ASSERT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(hostncclStreamSynchronize(stream), ncclSuccess);
    EXPECT_EQ(sum, 15);
    EXPECT_EQ(data, std::vector<float>(5000, 3.75f));  // constant: exact
    for (state = ncclCommFinalize(comm); state == ncclInProgress;)
      ncclCommGetAsyncError(comm, &state);
    EXPECT_EQ(state, ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    hostncclStreamDestroy(stream);
  });
}

TEST_F(Interpose, BadArgumentsAreAnErrorAndWriteNothing) {
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(5000, 1.0f);
    EXPECT_EQ(ncclAllReduce(nullptr, data.data(), 5000, ncclFloat32, ncclSum, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)), "");
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 5000, ncclFloat32, ncclSum, nullptr, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(data, std::vector<float>(5000, 1.0f));
  });
}

}  // namespace
}  // namespace terse::test
