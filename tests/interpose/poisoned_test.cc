// After a call that failed on its way its communicator is refused, also for calls that stay native:
// other ranks may be at other calls. Under TERSE_SCHEME="allreduce,sendrecv bytes=4K.. -> int8".
#include <gtest/gtest.h>
#include <nccl.h>

#include <latch>
#include <mutex>
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

ncclResult_t sum(std::vector<float>& x, size_t count, ncclComm_t comm) {
  return ncclAllReduce(x.data(), x.data(), count, ncclFloat32, ncclSum, comm, nullptr);
}

struct Refusal {
  ncclResult_t result;
  std::string message;
};

// Makes a call that is refused at once. NCCL's last error belongs to the process, so ranks on
// threads take turns.
template <class Call>
Refusal refusal_of(ncclComm_t comm, const Call& call) {
  static std::mutex turn;
  const std::lock_guard lock(turn);
  const ncclResult_t result = call();
  return {result, ncclGetLastError(comm)};
}

void expect_sum_of_ones(int ranks, ncclComm_t comm) {
  std::vector<float> x(50'000, 1.0f);
  EXPECT_EQ(settled(sum(x, x.size(), comm), comm), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_EQ(x, std::vector<float>(x.size(), static_cast<float>(ranks)));
}

TEST(Poisoned, RefusesCallsCompressedOrNot) {
  std::latch failed_on_both(2), seen(2);
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
    const std::string cause = ncclGetLastError(comm);  // ends alike on both ranks
    failed_on_both.arrive_and_wait();
    for (const size_t count : {size_t{100}, x.size()}) {
      const auto [result, error] = refusal_of(comm, [&] { return sum(count); });
      EXPECT_EQ(result, failed);
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

// A program that goes on without the rank that is lost hears of what is left of it, though the
// whole is refused as before.
TEST(Poisoned, NonBlockingCanBeShrunk) {
  constexpr int kRanks = 3;
  int lost = 1;
  std::latch failed(kRanks), over(kRanks);
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(non_blocking(), rank, kRanks, id);
    std::vector<float> x(50'000, 1.0f);
    EXPECT_EQ(settled(sum(x, x.size(), comm), comm), ncclSuccess) << ncclGetLastError(comm);
    ncclResult_t refused = ncclSuccess;
    if (rank < 2) {
      refused = fail_to_transfer(x.data(), 1 - rank, comm);
      EXPECT_NE(refused, ncclSuccess);
    }
    EXPECT_EQ(state_of(comm), refused);
    failed.arrive_and_wait();
    if (rank != lost) {
      int excluded[] = {lost};
      ncclComm_t part = nullptr;
      EXPECT_EQ(ncclCommShrink(comm, excluded, 1, &part, nullptr, NCCL_SHRINK_ABORT), ncclSuccess);
      EXPECT_EQ(settled(ncclInProgress, comm), ncclSuccess);
      EXPECT_NE(part, nullptr);
      if (part != nullptr) {
        expect_sum_of_ones(2, part);
        EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
      }
    }
    if (rank == 0) {
      EXPECT_EQ(sum(x, 100, comm), refused);
    }
    over.arrive_and_wait();  // an abort is the other ranks' error
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// Of which nccl.h says that it is quiescent then, that calls are refused, and that it may be split.
// What NCCL does not accept changes nothing.
TEST(Poisoned, IsNotOnceRevoked) {
  std::latch failed(2), over(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comm;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    std::vector<float> x(50'000, 1.0f);
    EXPECT_EQ(sum(x, x.size(), comm), ncclSuccess) << ncclGetLastError(comm);
    const ncclResult_t refused = fail_to_transfer(x.data(), 1 - rank, comm);
    EXPECT_NE(refused, ncclSuccess);
    EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);  // which is no revocation
    EXPECT_EQ(state_of(comm), refused);
    int lost = 1 - rank;
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommShrink(comm, &lost, 0, &part, nullptr, NCCL_SHRINK_ABORT),
              ncclInvalidArgument);  // of no rank
    EXPECT_EQ(state_of(comm), refused);
    EXPECT_EQ(sum(x, 100, comm), refused);
    failed.arrive_and_wait();
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
    EXPECT_EQ(state_of(comm), ncclSuccess);
    for (const size_t count : {size_t{100}, x.size()}) {
      const auto [result, error] = refusal_of(comm, [&] { return sum(x, count, comm); });
      EXPECT_EQ(result, ncclInvalidUsage);
      EXPECT_NE(error.find(", rank " + std::to_string(rank) + " of 2: revoked"), error.npos)
          << error;
      EXPECT_EQ(state_of(comm), ncclSuccess);
    }
    EXPECT_EQ(x, std::vector<float>(x.size(), 2.0f));
    EXPECT_EQ(ncclCommSplit(comm, 0, rank, &part, nullptr), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_NE(part, nullptr);
    if (part != nullptr) {
      expect_sum_of_ones(2, part);
      EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    }
    over.arrive_and_wait();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
