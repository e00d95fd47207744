// What AllGathers of differences keep of messages that do not come back.
#include <gtest/gtest.h>

#include <algorithm>

#include "delta_caller.h"
#include "engine/comm/shadows.h"
#include "ranks.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;
constexpr int kGathers = 2;  // of each message, as in a forward and a backward pass

// One rank's random numbers, new ones at each call.
Floats strange(size_t count, int rank, int call) {
  return floats_of(gaussian(count, ncclFloat32, static_cast<uint64_t>(1000 * call + rank)),
                   ncclFloat32);
}

Floats gathered(const Floats& send, const SchemeHandle& scheme, ncclComm_t comm) {
  Floats recv(kRanks * send.size());
  EXPECT_EQ(terseAllGather(send.data(), recv.data(), send.size(), ncclFloat32, scheme.get(), comm,
                           nullptr),
            ncclSuccess)
      << terseGetLastError();
  return recv;
}

// It may be of any size, and what is kept of it makes room for what comes later; weights, which
// come again, stay.
TEST(Delta, WhatNeverComesBackDoesNotPileUp) {
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int8:delta=shadow");
    const SchemeHandle scheme("int8:delta=shadow");
    Bytes weights(kRanks * Caller::kBytes);
    for (const int step : {0, 1}) caller.gather(weights, 0, step);
    size_t most = 0;
    for (int call = 0; call < 100; ++call) {
      const size_t count = 1000 + call;
      for (int k = 0; k < kGathers; ++k) {
        const Floats recv = gathered(strange(count, rank, call), scheme, comm);
        for (int r = 0; r < kRanks; ++r)
          ASSERT_EQ(Floats(recv.begin() + r * count, recv.begin() + (r + 1) * count),
                    strange(count, r, call));
      }
      most = std::max(most, caller.stats().state_bytes);
    }
    EXPECT_LE(most, shadow_room(kRanks * Caller::kBytes) +
                        34 * shadow_room(kRanks * 1100 * sizeof(float)));
    caller.gather(weights, 0, 2);
    EXPECT_EQ(caller.stats().delta_calls, 2u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Nor does what is known of them; and when one comes back at last, all ranks begin anew with it.
TEST(Delta, WhatComesBackAfterManyOthersBeginsAnew) {
  constexpr size_t kSizes = 1100;
  run_ranks(kRanks, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme("int8:delta=shadow");
    const auto gather = [&](size_t count) {
      EXPECT_EQ(gathered(Floats(count, 1.0f), scheme, comm), Floats(kRanks * count, 1.0f));
    };
    for (size_t count = 1; count <= kSizes; ++count) gather(count);
    for (int times = 0; times < 3; ++times) gather(1);
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], kSizes + 1);
    EXPECT_EQ(stats.delta_unchanged, 2u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Once that has been so for long enough, nothing is kept of the kind.
TEST(Delta, OfWhatIsGivenUpNothingIsKept) {
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int8:delta=shadow");
    for (int call = 0; call < 1400; ++call) {
      const Floats send = strange(100, rank, call);
      for (int k = 0; k < kGathers; ++k) gathered(send, scheme, comm);
      if (call == 1000) {
        EXPECT_GT(client_stats(comm).state_bytes, 0u);
      }
    }
    EXPECT_EQ(client_stats(comm).state_bytes, 0u);
    EXPECT_GT(client_stats(comm).bypasses[TERSE_BYPASS_DELTA], 0u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
