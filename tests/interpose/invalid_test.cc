// After a call that failed on its way its communicator is refused, also for calls that stay native:
// other ranks may be at other calls. Under TERSE_SCHEME="allreduce,sendrecv bytes=4K.. -> int8".
#include <gtest/gtest.h>
#include <nccl.h>

#include <latch>
#include <string>
#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr size_t kBeyondMemory = size_t{1} << 46;  // beyond all addresses, too

ncclResult_t fail_to_transfer(float* x, int peer, ncclComm_t comm) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(x, kBeyondMemory, ncclFloat16, peer, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclRecv(x, kBeyondMemory, ncclFloat16, peer, comm, nullptr), ncclSuccess);
  return ncclGroupEnd();
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

TEST(Invalid, CallsAreRefusedCompressedOrNot) {
  std::latch seen(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comm;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    std::vector<float> x(50'000, 1.0f);
    const auto sum = [&](size_t count) {
      return ncclAllReduce(x.data(), x.data(), count, ncclFloat32, ncclSum, comm, nullptr);
    };
    EXPECT_EQ(sum(x.size()), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(x, std::vector<float>(x.size(), 2.0f));
    EXPECT_EQ(state_of(comm), ncclSuccess);
    const ncclResult_t failed = fail_to_transfer(x.data(), 1 - rank, comm);
    EXPECT_NE(failed, ncclSuccess);
    EXPECT_EQ(state_of(comm), failed);
    const std::string cause = ncclGetLastError(comm);
    for (const size_t count : {size_t{100}, x.size()}) {
      EXPECT_EQ(sum(count), failed);
      const std::string error = ncclGetLastError(comm);
      const std::string wanted = "ncclAllReduce: communicator #0, rank " + std::to_string(rank) +
                                 " of 2: its ranks may be at different calls since one has failed, "
                                 "and it is good for nothing but to be aborted: ";
      EXPECT_EQ(error.substr(0, wanted.size()), wanted);
      EXPECT_EQ(error.substr(error.rfind(": ")), cause.substr(cause.rfind(": ")));
    }
    EXPECT_EQ(x, std::vector<float>(x.size(), 2.0f));
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, rank, &part, nullptr), failed);
    EXPECT_EQ(part, nullptr);
    seen.arrive_and_wait();  // an abort is the other rank's error
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
