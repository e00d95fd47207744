// Communicators on which terse waits inside of NCCL, which only their abort ends
// (fake/stuck_nccl.cc), under TERSE_SCHEME=int8.
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <thread>

#include "clients.h"

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Stuck, AnAbortDoesNotWaitForWhatItAloneCanEnd) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    ncclResult_t state = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    while (state == ncclInProgress) pncclCommGetAsyncError(comm, &state);
    EXPECT_EQ(state, ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // by now the ranks try to meet
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInProgress);
    const auto start = Clock::now();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  });
}

}  // namespace
}  // namespace terse::test
