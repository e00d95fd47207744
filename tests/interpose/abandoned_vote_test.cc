// Two ranks that begin the first large calls of two communicators in different orders: terse gives
// up what they decide together, and the communicators cannot be finalized but destroyed.
#include <gtest/gtest.h>
#include <hostnccl.h>

#include <latch>
#include <string>
#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr size_t kCount = 1 << 20;

TEST(AbandonedVote, LeavesCommunicatorsThatCanBeDestroyed) {
  std::latch seen(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comms[2];
    ASSERT_EQ(ncclCommInitRank(&comms[0], 2, id, rank), ncclSuccess);
    ASSERT_EQ(ncclCommSplit(comms[0], 0, rank, &comms[1], nullptr), ncclSuccess);
    const std::vector<float> send(kCount, 1.0f);
    std::vector<float> recv(kCount);
    cudaStream_t stream;
    ASSERT_EQ(hostncclStreamCreate(&stream), ncclSuccess);
    EXPECT_EQ(
        ncclAllReduce(send.data(), recv.data(), kCount, ncclFloat32, ncclSum, comms[rank], stream),
        ncclSystemError);
    const std::string said = ncclGetLastError(nullptr);
    EXPECT_NE(said.find("not every rank came to a call"), said.npos) << said;
    seen.arrive_and_wait();  // the last error is the process's
    EXPECT_EQ(ncclCommFinalize(comms[rank]), ncclSystemError);
    for (const int i : {rank, 1 - rank}) EXPECT_EQ(ncclCommDestroy(comms[i]), ncclSuccess);
    EXPECT_EQ(hostncclStreamDestroy(stream), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
