// Groups that fail, and what the same thread does after them. Under
// TERSE_SCHEME="name=dp* -> int4", so that the ranks compare names.
#include <gtest/gtest.h>
#include <hostnccl.h>
#include <nccl.h>

#include <barrier>
#include <latch>
#include <string>
#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 50'000;

using Floats = std::vector<float>;

// What int4 cannot hold.
Floats wave(int rank) {
  Floats x(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i % 97 + rank);
  return x;
}

ncclResult_t all_reduce(Floats& x, ncclComm_t comm) {
  return settled(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, nullptr),
                 comm);
}

// That it is a sum at once, by int4.
void expect_compressed_sum(int rank, ncclComm_t comm) {
  const Floats before = wave(rank);
  Floats x = before, truth(kCount);
  for (size_t i = 0; i < kCount; ++i) truth[i] = static_cast<float>(2 * (i % 97) + 1);
  ASSERT_EQ(all_reduce(x, comm), ncclSuccess) << ncclGetLastError(comm);
  EXPECT_NE(x, truth);
  for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(x[i], truth[i], 0.2f * 97 * 2) << i;
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

// A communicator whose other rank has aborted it, as NCCL knows by now; used once before, on all.
class Broken {
 public:
  ncclComm_t make(int rank) {
    const ncclComm_t comm = made_with(non_blocking("dp"), rank, kRanks, id_);
    expect_compressed_sum(rank, comm);
    used_.arrive_and_wait();
    if (rank == 1) {
      ncclCommAbort(comm);
      return nullptr;
    }
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess || state == ncclInProgress)
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) break;
    return comm;
  }

 private:
  const ncclUniqueId id_ = new_id();
  std::barrier<> used_{kRanks};
};

// A call that NCCL has: the elements are integers.
ncclResult_t sum_natively(int64_t& number, ncclComm_t comm) {
  return ncclAllReduce(&number, &number, 1, ncclInt64, ncclSum, comm, nullptr);
}

ncclComm_t named_dp(int rank, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "dp";
  return made_with(config, rank, kRanks, id);
}

void expect_no_group() { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }

TEST(FailedGroup, OfCommunicatorsThatAreNotAlike) {
  const ncclUniqueId good = new_id();
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = rank == 0 ? "dp" : "other";
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, kRanks, id, rank, &config), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("\"other\""), std::string::npos);
    EXPECT_EQ(comm, nullptr);
    config.commName = "dp";
    comm = made_with(config, rank, kRanks, good);
    expect_compressed_sum(rank, comm);
    expect_no_group();
    ncclCommDestroy(comm);
  });
}

TEST(FailedGroup, OfCallsOfWhichNcclHasBegunOne) {
  Broken broken;
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t good = made_with(non_blocking("dp"), rank, kRanks, id);
    const ncclComm_t bad = broken.make(rank);
    Floats x = wave(rank);
    int64_t number = 5;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    sum_natively(number, good);
    if (rank == 0) {
      ASSERT_EQ(all_reduce(x, bad), ncclSuccess) << ncclGetLastError(nullptr);
    }
    const ncclResult_t result = settled(ncclGroupEnd(), good);
    if (rank == 0)
      EXPECT_EQ(result, ncclRemoteError) << ncclGetLastError(nullptr);
    else
      EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(x, wave(rank));
    ASSERT_EQ(settled(ncclInProgress, good), ncclSuccess);  // for NCCL's own call of the group
    EXPECT_EQ(number, 10);
    expect_compressed_sum(rank, good);
    expect_no_group();
    if (bad != nullptr) ncclCommAbort(bad);
    ncclCommDestroy(good);
  });
}

// A call that cannot be right, in a group with a good one of NCCL's and, `before` it or after, a
// good one of ours.
void expect_refused(int rank, ncclComm_t comm, bool before, int depth) {
  Floats x = wave(rank);
  int64_t number = 5;
  const auto good = [&] {
    EXPECT_EQ(sum_natively(number, comm), ncclSuccess);
    EXPECT_EQ(all_reduce(x, comm), ncclSuccess);
  };
  for (int d = 0; d < depth; ++d) ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  if (before) good();
  EXPECT_EQ(ncclAllReduce(nullptr, x.data(), kCount, ncclFloat32, ncclSum, comm, nullptr),
            ncclInvalidArgument);
  if (!before) good();
  for (int d = 1; d < depth; ++d) EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(comm)).find("sendbuff is null"), std::string::npos)
      << ncclGetLastError(comm);
  EXPECT_EQ(number, 5);
  EXPECT_EQ(x, wave(rank));
}

TEST(FailedGroup, WithACallThatIsRefused) {
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "dp";
    const ncclComm_t comm = made_with(config, rank, kRanks, id);
    for (const bool before : {true, false})
      for (const int depth : {1, 2}) {
        expect_refused(rank, comm, before, depth);
        expect_compressed_sum(rank, comm);
      }
    expect_no_group();
    ncclCommDestroy(comm);
  });
}

// What rank 0 calls next would meet what rank 1 has made.
void expect_broken_off(ncclComm_t comm, ncclResult_t cause) {
  Floats x = wave(0);
  EXPECT_EQ(all_reduce(x, comm), cause);
  const std::string error = ncclGetLastError(comm);
  for (const char* part : {"ncclAllReduce: communicator \"dp-lost\", rank 0 of 2: ",
                           "may be at different calls since one has failed"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(x, wave(0));
}

// A compressed call of rank 0's group, which fails with the rest of it. Rank 1 makes its own, after
// its part of that rest, and gets no answer.
class LostCall {
 public:
  template <class Rest, class OthersRest>
  void make(int rank, ncclResult_t cause, const Rest& rest, const OthersRest& others_rest) {
    const ncclComm_t comm = made_with(non_blocking("dp-lost"), rank, kRanks, id_);
    Floats x = wave(rank);
    if (rank == 1) {
      others_rest();
      alone_.count_down();
      EXPECT_NE(all_reduce(x, comm), ncclSuccess);
    } else {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(all_reduce(x, comm), ncclSuccess) << ncclGetLastError(nullptr);
      rest();
      EXPECT_EQ(ncclGroupEnd(), cause) << ncclGetLastError(nullptr);
      EXPECT_EQ(x, wave(rank));
      expect_no_group();
      alone_.wait();  // what was said last is the process's
      expect_broken_off(comm, cause);
    }
    ncclCommAbort(comm);
  }

 private:
  const ncclUniqueId id_ = new_id();
  std::latch alone_{1};
};

void nothing() {}

TEST(FailedGroup, BreaksOffTheOthersWhereOneIsNotSettled) {
  Broken broken;
  LostCall lost;
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t good = made_with(non_blocking("dp"), rank, kRanks, id);
    const ncclComm_t bad = broken.make(rank);
    Floats x = wave(rank);
    int64_t number = 5;
    const auto rest = [&] {
      sum_natively(number, good);
      EXPECT_EQ(all_reduce(x, bad), ncclSuccess) << ncclGetLastError(nullptr);
    };
    lost.make(rank, ncclRemoteError, rest,
              [&] { EXPECT_EQ(settled(sum_natively(number, good), good), ncclSuccess); });
    ASSERT_EQ(settled(ncclInProgress, good), ncclSuccess);
    EXPECT_EQ(number, 10);
    expect_compressed_sum(rank, good);
    if (bad != nullptr) ncclCommAbort(bad);
    ncclCommDestroy(good);
  });
}

TEST(FailedGroup, BreaksOffTheOthersWhereNcclFails) {
  Broken broken;
  LostCall lost;
  on_threads(kRanks, [&](int rank, const ncclUniqueId&) {
    const ncclComm_t bad = broken.make(rank);
    int64_t number = 5;
    lost.make(
        rank, ncclRemoteError, [&] { sum_natively(number, bad); }, nothing);
    if (bad != nullptr) ncclCommAbort(bad);
  });
}

// For what NCCL would have taken.
TEST(FailedGroup, BreaksOffTheOthersOfACallThatIsRefused) {
  Broken broken;
  LostCall lost;
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t refused = made_with(non_blocking("dp"), rank, kRanks, id);
    const ncclComm_t bad = broken.make(rank);
    Floats x = wave(rank);
    int64_t number = 5;
    if (rank == 0) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(all_reduce(x, refused), ncclSuccess) << ncclGetLastError(nullptr);
      sum_natively(number, bad);
      EXPECT_EQ(ncclGroupEnd(), ncclRemoteError) << ncclGetLastError(nullptr);
    }
    lost.make(
        rank, ncclRemoteError, [&] { EXPECT_EQ(sum_natively(number, refused), ncclRemoteError); },
        nothing);
    for (const ncclComm_t comm : {refused, bad})
      if (comm != nullptr) ncclCommAbort(comm);
  });
}

TEST(FailedGroup, BreaksOffTheOthersWhereWhatItMakesIsRefused) {
  LostCall lost;
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = rank == 0 ? "dp" : "other";
    ncclComm_t comm = nullptr;
    const auto make = [&] { return ncclCommInitRankConfig(&comm, kRanks, id, rank, &config); };
    lost.make(
        rank, ncclInvalidUsage, [&] { EXPECT_EQ(make(), ncclSuccess); },
        [&] { EXPECT_EQ(make(), ncclInvalidUsage); });
    EXPECT_EQ(comm, nullptr);
  });
}

// A message that stays native waits for the group's end, too; and so is lost.
TEST(FailedGroup, BreaksOffTheOthersOfNativeMessages) {
  Broken broken;
  std::latch ended(1);
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t lost = made_with(non_blocking("dp-lost"), rank, kRanks, id);
    const ncclComm_t bad = broken.make(rank);
    int64_t number = 5;
    if (rank == 0) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(&number, 1, ncclInt64, 1, lost, nullptr), ncclSuccess);
      sum_natively(number, bad);
      EXPECT_EQ(ncclGroupEnd(), ncclRemoteError) << ncclGetLastError(nullptr);
      expect_broken_off(lost, ncclRemoteError);
      ncclCommAbort(bad);
      ended.count_down();
    }
    ended.wait();
    ncclCommAbort(lost);
  });
}

// As NCCL does, which takes no such call, and whose program may go on.
TEST(FailedGroup, LeavesTheOthersWhereAnArgumentCannotBeRight) {
  const ncclUniqueId second = new_id();
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t one = named_dp(rank, id), other = named_dp(rank, second);
    for (const ncclDataType_t type : {ncclFloat32, ncclInt64}) {  // refused by terse, and by NCCL
      Floats x = wave(rank);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(all_reduce(x, one), ncclSuccess) << ncclGetLastError(one);
      EXPECT_EQ(ncclAllReduce(nullptr, x.data(), kCount / 2, type, ncclSum, other, nullptr),
                ncclInvalidArgument);
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      EXPECT_EQ(x, wave(rank));
      for (const ncclComm_t comm : {one, other}) expect_compressed_sum(rank, comm);
    }
    for (const ncclComm_t comm : {one, other}) ncclCommDestroy(comm);
  });
}

// The same where a communicator is none: it was destroyed.
TEST(FailedGroup, LeavesTheOthersWhereACommunicatorIsNone) {
  const ncclUniqueId second = new_id();
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t one = named_dp(rank, id), gone = named_dp(rank, second);
    for (const ncclComm_t comm : {one, gone}) expect_compressed_sum(rank, comm);
    ASSERT_EQ(ncclCommDestroy(gone), ncclSuccess);
    Floats x = wave(rank);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(all_reduce(x, one), ncclSuccess) << ncclGetLastError(one);
    EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, gone, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(x, wave(rank));
    expect_compressed_sum(rank, one);
    ncclCommDestroy(one);
  });
}

TEST(FailedGroup, OfASimulation) {
  Broken broken;
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t good = made_with(non_blocking("dp"), rank, kRanks, id);
    const ncclComm_t bad = broken.make(rank);
    if (rank == 0) {
      Floats x = wave(rank);
      ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(all_reduce(x, bad), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclRemoteError) << ncclGetLastError(nullptr);
      EXPECT_EQ(x, wave(rank));
    }
    expect_compressed_sum(rank, good);
    expect_no_group();
    if (bad != nullptr) ncclCommAbort(bad);
    ncclCommDestroy(good);
  });
}

}  // namespace
}  // namespace terse::test
