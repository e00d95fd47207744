// Communicators: how they are made, split, shrunk, finalised, and what they tell about themselves.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "free_port.h"
#include "reference.h"

namespace hostnccl_test {
namespace {

// What it says when it no longer says that it is in progress.
ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state;
  do {
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (state == ncclInProgress);
  return state;
}

// All ranks of a communicator that does not block, settled.
std::vector<ncclComm_t> non_blocking_ranks(int n) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::vector<ncclComm_t> comms(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r)
    EXPECT_EQ(ncclInProgress, ncclCommInitRankConfig(&comms[r], n, id, r, &config));
  for (ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);
  return comms;
}

TEST(Communicator, RanksAsThreads) {
  for (const int n : {1, 2, 5}) {
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    on_threads(n, [&](int rank) {
      ncclComm_t comm;
      ASSERT_NCCL(ncclCommInitRank(&comm, n, id, rank));
      int count = 0, user_rank = -1, device = -1;
      EXPECT_NCCL(ncclCommCount(comm, &count));
      EXPECT_NCCL(ncclCommUserRank(comm, &user_rank));
      EXPECT_NCCL(ncclCommCuDevice(comm, &device));
      EXPECT_EQ(count, n);
      EXPECT_EQ(user_rank, rank);
      EXPECT_GE(device, 0);
      expect_sum(comm, 1, n);
      EXPECT_NCCL(ncclCommFinalize(comm));
      EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
}

TEST(Communicator, RanksInAGroupOfOneThread) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comms[3];
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 3; ++r) ASSERT_NCCL(ncclCommInitRank(&comms[r], 3, id, r));
  ASSERT_NCCL(ncclGroupEnd());
  on_threads(3, [&](int r) { expect_sum(comms[r], 1, 3); });
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(Communicator, ScalableInitTakesSeveralIds) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_NCCL(ncclGetUniqueId(&id));
  on_threads(4, [&](int rank) {
    ncclComm_t comm;
    ASSERT_NCCL(ncclCommInitRankScalable(&comm, 4, rank, 2, ids, nullptr));
    expect_sum(comm, 1, 4);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Communicator, CommIdFromTheEnvironment) {
  const std::string address = "127.0.0.1:" + std::to_string(terse::test::free_port());
  setenv("NCCL_COMM_ID", address.c_str(), 1);
  ncclUniqueId ids[3];
  for (ncclUniqueId& id : ids) ASSERT_NCCL(ncclGetUniqueId(&id));  // each for itself
  on_threads(3, [&](int rank) {
    ncclComm_t comm;
    ASSERT_NCCL(ncclCommInitRank(&comm, 3, ids[rank], rank));
    expect_sum(comm, 1, 3);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
  unsetenv("NCCL_COMM_ID");
}

TEST(Communicator, SplitByColourAndKey) {
  const Clique clique(5);
  on_threads(5, [&](int rank) {
    // Odd and even ranks, in reverse order; rank 4 stays out.
    ncclComm_t child = clique[rank];
    ASSERT_NCCL(ncclCommSplit(clique[rank], rank == 4 ? NCCL_SPLIT_NOCOLOR : rank % 2, -rank,
                              &child, nullptr));
    if (rank == 4) {
      EXPECT_EQ(child, nullptr);
      return;
    }
    int child_rank = -1;
    EXPECT_NCCL(ncclCommUserRank(child, &child_rank));
    EXPECT_EQ(child_rank, rank < 2 ? 1 : 0);
    expect_sum(child, rank, rank % 2 == 0 ? 2 : 4);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
  on_threads(5, [&](int rank) { expect_sum(clique[rank], 1, 5); });  // the parent lives on
}

TEST(Communicator, SplitInAGroupOfOneThread) {
  const Clique clique(4);
  ncclComm_t child[4];
  ASSERT_NCCL(clique.each([&](int rank, ncclComm_t comm) {
    return ncclCommSplit(comm, rank / 2, rank, &child[rank], nullptr);
  }));
  on_threads(4, [&](int rank) { expect_sum(child[rank], rank, rank < 2 ? 1 : 5); });
  for (ncclComm_t comm : child) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(Communicator, ShrinkLeavesRanksOut) {
  const Clique clique(4);
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    on_threads(4, [&](int rank) {
      int excluded[] = {0, 2};  // the hub among them
      if (rank % 2 == 0) return;
      ncclComm_t child;
      ASSERT_NCCL(ncclCommShrink(clique[rank], excluded, 2, &child, nullptr, flags));
      int count = 0;
      EXPECT_NCCL(ncclCommCount(child, &count));
      EXPECT_EQ(count, 2);
      expect_sum(child, rank, 4);
      EXPECT_NCCL(ncclCommDestroy(child));
    });
  }
}

TEST(Communicator, ShrinkRefusesAnExcludedCaller) {
  const Clique clique(2);
  int excluded[] = {0};
  ncclComm_t child = clique[0];
  EXPECT_EQ(ncclInvalidArgument,
            ncclCommShrink(clique[0], excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  EXPECT_EQ(child, nullptr);
}

// A call that fails on one rank alone is one of its calls all the same.
TEST(Communicator, ShrinkAfterOneThatFailedOnOneRank) {
  const Clique clique(3);
  int excluded[] = {2};
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (rank == 0) config.blocking = 7;
    ncclComm_t child;
    EXPECT_NE(ncclSuccess, ncclCommShrink(clique[rank], excluded, 1, &child, &config, 0));
  });
  unsetenv("HOSTNCCL_TIMEOUT");
  on_threads(2, [&](int rank) {
    ncclComm_t child;
    ASSERT_NCCL(ncclCommShrink(clique[rank], excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    expect_sum(child, rank, 1);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
}

// One rank hears of a failure in time to leave out a split that another one begins.
TEST(Communicator, ShrinkAfterASplitThatNotAllBegan) {
  ncclComm_t comms[3];
  ASSERT_NCCL(ncclCommInitAll(comms, 3, nullptr));
  std::thread splitting([&] {
    ncclComm_t child;
    EXPECT_EQ(ncclRemoteError, ncclCommSplit(comms[1], 0, 0, &child, nullptr));
  });
  EXPECT_NCCL(ncclCommAbort(comms[2]));
  splitting.join();
  on_threads(2, [&](int rank) {
    int excluded[] = {2};
    ncclComm_t child;
    ASSERT_NCCL(ncclCommShrink(comms[rank], excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    expect_sum(child, rank, 1);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
  for (int r = 0; r < 2; ++r) EXPECT_NCCL(ncclCommDestroy(comms[r]));
}

// As after "still being initialised: wait".
TEST(Communicator, RepeatsASplitThatOneRankWasRefused) {
  const Clique clique(2);
  on_threads(2, [&](int rank) {
    ncclComm_t child;
    if (rank == 1) {
      EXPECT_EQ(ncclInvalidArgument, ncclCommSplit(clique[1], -7, 0, &child, nullptr));
    }
    ASSERT_NCCL(ncclCommSplit(clique[rank], 0, rank, &child, nullptr));
    expect_sum(child, rank, 1);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
}

TEST(Communicator, RefusesCallsOnceFinalized) {
  const Clique clique(1);
  int value = 1;
  ASSERT_NCCL(ncclCommFinalize(clique[0]));
  EXPECT_EQ(ncclInvalidUsage,
            ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], nullptr));
  ncclResult_t state;
  EXPECT_NCCL(ncclCommGetAsyncError(clique[0], &state));
  EXPECT_EQ(state, ncclSuccess);
}

TEST(Communicator, RevokeEndsWhatIsUnderWay) {
  const Clique clique(2);
  std::thread waiting([&] {
    int value = 1;
    EXPECT_NE(ncclSuccess,
              ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], nullptr));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int r = 0; r < 2; ++r) EXPECT_NCCL(ncclCommRevoke(clique[r], NCCL_REVOKE_DEFAULT));
  waiting.join();
  int value = 1;
  EXPECT_EQ(ncclInvalidUsage,
            ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[1], nullptr));
  ncclResult_t state = ncclInternalError;
  EXPECT_NCCL(ncclCommGetAsyncError(clique[1], &state));
  EXPECT_EQ(state, ncclSuccess);
}

TEST(Communicator, SplitsAndShrinksOnceRevoked) {
  const Clique clique(3);
  on_threads(3, [&](int rank) { EXPECT_NCCL(ncclCommRevoke(clique[rank], NCCL_REVOKE_DEFAULT)); });
  for (const int last : {NCCL_SPLIT_NOCOLOR, 7})
    on_threads(3, [&](int rank) {
      ncclComm_t child = nullptr;
      ASSERT_NCCL(ncclCommSplit(clique[rank], rank == 2 ? last : 0, -rank, &child, nullptr));
      if (rank == 2 && last == NCCL_SPLIT_NOCOLOR) {
        EXPECT_EQ(child, nullptr);
        return;
      }
      int child_rank = -1;
      EXPECT_NCCL(ncclCommUserRank(child, &child_rank));
      EXPECT_EQ(child_rank, rank == 0 ? 1 : 0);
      expect_sum(child, rank, rank == 2 ? 2 : 1);
      EXPECT_NCCL(ncclCommDestroy(child));
    });
  on_threads(3, [&](int rank) {
    int excluded[] = {0};
    if (rank == 0) return;
    ncclComm_t child;
    ASSERT_NCCL(ncclCommShrink(clique[rank], excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    expect_sum(child, rank, 3);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
}

TEST(Communicator, FailsASplitBegunBeforeARevocation) {
  const Clique clique(2);
  ncclComm_t child = clique[0];
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclCommSplit(clique[0], 0, 0, &child, nullptr));
  EXPECT_NCCL(ncclCommRevoke(clique[0], NCCL_REVOKE_DEFAULT));
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
  EXPECT_EQ(child, nullptr);
}

// As NCCL's does: what a configuration leaves open is not the parent's. How it is made, is.
TEST(Communicator, ChildBlocksUnlessItsConfigurationSaysOtherwise) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm, child = nullptr;
    EXPECT_EQ(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    ASSERT_EQ(settled(comm), ncclSuccess);
    config.blocking = NCCL_CONFIG_UNDEF_INT;
    ASSERT_NCCL(ncclCommSplit(comm, 0, rank, &child, &config));
    ASSERT_EQ(settled(comm), ncclSuccess);
    ASSERT_NE(child, nullptr);
    expect_sum(child, 1 + rank, 3);
    EXPECT_NCCL(ncclCommDestroy(child));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// So that one part of it is made at a time.
TEST(Communicator, BlockingParentWaitsForANonBlockingChild) {
  const Clique clique(3);
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    int excluded[] = {2};
    for (int i = 0; i < 2; ++i) {
      ncclComm_t child = nullptr;
      ASSERT_NCCL(ncclCommShrink(clique[rank], excluded, 1, &child, &config, NCCL_SHRINK_DEFAULT));
      ASSERT_NE(child, nullptr);
      int value = 1;
      EXPECT_EQ(ncclInProgress,
                ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, child, nullptr));
      EXPECT_EQ(settled(child), ncclSuccess);
      EXPECT_EQ(value, 2);
      EXPECT_NCCL(ncclCommDestroy(child));
    }
  });
}

TEST(Communicator, NonBlocking) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto settle = [](ncclComm_t comm) { ASSERT_EQ(settled(comm), ncclSuccess); };
  ncclComm_t comms[2], child[2];
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclInProgress, ncclCommInitRankConfig(&comms[r], 2, id, r, &config));
    if (r == 0) {  // its peer has not been called yet
      int count;
      EXPECT_EQ(ncclInvalidArgument, ncclCommCount(comms[0], &count));
    }
  }
  for (ncclComm_t comm : comms) settle(comm);
  for (int r = 0; r < 2; ++r) {
    EXPECT_NCCL(ncclCommSplit(comms[r], 0, r, &child[r], nullptr));  // the parent says the rest
    if (r == 0) {
      ncclResult_t state;
      EXPECT_NCCL(ncclCommGetAsyncError(comms[0], &state));
      EXPECT_EQ(state, ncclInProgress);
      EXPECT_EQ(child[0], nullptr);
    }
  }
  for (ncclComm_t comm : comms) settle(comm);
  for (ncclComm_t comm : child) settle(comm);
  on_threads(2, [&](int r) {
    int value = 1 + r;
    const auto sum = [&] {
      return ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, child[r], nullptr);
    };
    EXPECT_NCCL(ncclAllReduce(&value, &value, 0, ncclInt32, ncclSum, child[r], nullptr));
    EXPECT_EQ(ncclInProgress, sum());
    EXPECT_EQ(ncclInvalidArgument, sum());  // before it is settled
    settle(child[r]);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(sum());
    EXPECT_EQ(ncclInProgress, ncclGroupEnd());
    settle(child[r]);
    EXPECT_EQ(value, 6);
  });
  for (int r = 0; r < 2; ++r) {
    const ncclResult_t result = ncclCommFinalize(comms[r]);
    EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress);
    settle(comms[r]);
    EXPECT_NCCL(ncclCommDestroy(comms[r]));
    EXPECT_NCCL(ncclCommDestroy(child[r]));
  }
}

// And ends them all.
void expect_to_be_shrunk_to_two(std::span<const ncclComm_t> comms, int flags) {
  ncclComm_t child[2];
  int excluded[] = {2};
  for (int r = 0; r < 2; ++r)
    ASSERT_NCCL(ncclCommShrink(comms[r], excluded, 1, &child[r], nullptr, flags));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(child[r]));
  }
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

// The parent of a part that cannot be made says so, until another one is asked for.
TEST(Communicator, NonBlockingChildThatFails) {
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    const std::vector<ncclComm_t> comms = non_blocking_ranks(3);
    ncclComm_t child[2];
    int excluded[] = {2};
    setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
    for (int r = 0; r < 2; ++r) {  // one after the other: they do not meet
      ASSERT_NCCL(ncclCommShrink(comms[r], excluded, 1, &child[r], nullptr, flags));
      EXPECT_EQ(settled(comms[r]), ncclSystemError);
      EXPECT_EQ(settled(comms[r]), ncclSystemError);
      EXPECT_EQ(child[r], nullptr);
      if (r == 0) {
        EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("rank 1 did not arrive"),
                  std::string::npos)
            << ncclGetLastError(nullptr);
      }
    }
    unsetenv("HOSTNCCL_TIMEOUT");
    expect_to_be_shrunk_to_two(comms, flags);
  }
}

// The other rank has not been asked for its part yet.
TEST(Communicator, NonBlockingRefusesCallsWhileAChildIsMade) {
  const std::vector<ncclComm_t> comms = non_blocking_ranks(2);
  ncclComm_t child[2], other;
  ASSERT_NCCL(ncclCommSplit(comms[0], 0, 0, &child[0], nullptr));
  ASSERT_EQ(ncclInvalidArgument, ncclCommSplit(comms[0], 0, 0, &other, nullptr));
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("still being made"), std::string::npos)
      << ncclGetLastError(nullptr);
  int value = 1, excluded[] = {1};
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    other = comms[0];
    EXPECT_EQ(ncclInvalidArgument, ncclCommShrink(comms[0], excluded, 1, &other, nullptr, flags));
    EXPECT_EQ(other, nullptr);
  }
  EXPECT_EQ(ncclInvalidArgument,
            ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comms[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclCommFinalize(comms[0]));

  ASSERT_NCCL(ncclCommSplit(comms[1], 0, 1, &child[1], nullptr));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_EQ(settled(child[r]), ncclSuccess);
  }
  on_threads(2, [&](int r) {
    int sum = 1;
    EXPECT_EQ(ncclInProgress, ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comms[r], nullptr));
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_EQ(sum, 2);
    EXPECT_NCCL(ncclCommDestroy(child[r]));
    EXPECT_NCCL(ncclCommDestroy(comms[r]));
  });
}

TEST(Communicator, NonBlockingMakesOneChildAtATimeOnceRevoked) {
  const std::vector<ncclComm_t> comms = non_blocking_ranks(2);
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  ncclComm_t child[2], other;
  ASSERT_NCCL(ncclCommSplit(comms[0], 0, 0, &child[0], nullptr));
  ASSERT_EQ(ncclInvalidArgument, ncclCommSplit(comms[0], 0, 0, &other, nullptr));
  ASSERT_NCCL(ncclCommSplit(comms[1], 0, 1, &child[1], nullptr));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(settled(comms[r]), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(child[r]));
    EXPECT_NCCL(ncclCommDestroy(comms[r]));
  }
}

// A rank that is told to wait asks again; those that are not have asked once.
TEST(Communicator, NonBlockingShrinksOnceInitialised) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  int excluded[] = {2};
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comms[3], child[2];
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ncclInProgress, ncclCommInitRankConfig(&comms[r], 3, id, r, &config));
      if (r > 0) continue;
      ASSERT_EQ(ncclInvalidArgument,
                ncclCommShrink(comms[0], excluded, 1, &child[0], nullptr, flags));
    }
    for (ncclComm_t comm : comms) ASSERT_EQ(settled(comm), ncclSuccess);
    expect_to_be_shrunk_to_two(comms, flags);
  }
}

// The other rank asks for its part when the whole is no more, and with it what waited for that.
TEST(Communicator, AbortEndsChildrenThatAreBeingMade) {
  const std::vector<ncclComm_t> comms = non_blocking_ranks(3);
  ncclComm_t child[2] = {};
  int excluded[] = {2};
  ASSERT_NCCL(ncclCommShrink(comms[0], excluded, 1, &child[0], nullptr, NCCL_SHRINK_DEFAULT));
  EXPECT_NCCL(ncclCommAbort(comms[0]));
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  ASSERT_NCCL(ncclCommShrink(comms[1], excluded, 1, &child[1], nullptr, NCCL_SHRINK_ABORT));
  EXPECT_NE(settled(comms[1]), ncclSuccess);
  unsetenv("HOSTNCCL_TIMEOUT");
  for (ncclComm_t made : child) EXPECT_EQ(made, nullptr);
  for (int r = 1; r < 3; ++r) EXPECT_NCCL(ncclCommAbort(comms[r]));
}

// The other ranks do not come, and would be waited for much longer.
TEST(Communicator, AbortEndsCallsThatWaitForAChild) {
  using Clock = std::chrono::steady_clock;
  for (const bool shrinks : {true, false}) {  // or splits a revoked one
    ncclComm_t comms[3];
    ASSERT_NCCL(ncclCommInitAll(comms, 3, nullptr));
    if (!shrinks) {
      EXPECT_NCCL(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));
    }
    setenv("HOSTNCCL_TIMEOUT", "60", 1);
    ncclComm_t child = comms[0];
    std::thread waiting([&] {
      int excluded[] = {2};
      EXPECT_NE(ncclSuccess, shrinks ? ncclCommShrink(comms[0], excluded, 1, &child, nullptr, 0)
                                     : ncclCommSplit(comms[0], 0, 0, &child, nullptr));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Clock::time_point start = Clock::now();
    EXPECT_NCCL(ncclCommAbort(comms[0]));
    waiting.join();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
    unsetenv("HOSTNCCL_TIMEOUT");
    EXPECT_EQ(child, nullptr);
    for (int r = 1; r < 3; ++r) EXPECT_NCCL(ncclCommAbort(comms[r]));
  }
}

TEST(Communicator, GroupWithAShrinkMakesNoOtherChild) {
  const Clique clique(3);
  using Make = std::function<ncclResult_t(ncclComm_t&)>;
  const Make split = [&](ncclComm_t& made) {
    return ncclCommSplit(clique[0], 0, 0, &made, nullptr);
  };
  const Make shrink = [&](ncclComm_t& made) {
    int excluded[] = {2};
    return ncclCommShrink(clique[0], excluded, 1, &made, nullptr, NCCL_SHRINK_ABORT);
  };
  using Pair = std::pair<Make, Make>;
  for (const auto& [make, make_other] :
       {Pair(shrink, shrink), Pair(shrink, split), Pair(split, shrink)}) {
    ncclComm_t child[2];
    ASSERT_NCCL(ncclGroupStart());
    EXPECT_NCCL(make(child[0]));
    EXPECT_EQ(ncclInvalidUsage, make_other(child[1]));
    EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
    for (ncclComm_t made : child) EXPECT_EQ(made, nullptr);
  }
  on_threads(3, [&](int rank) { expect_sum(clique[rank], 1, 3); });
}

// As NCCL has it; of parts their parents count.
TEST(Communicator, GroupRefusesBlockingAndNonBlockingTogether) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const Clique clique(2);
  ncclComm_t made[2];
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclCommSplit(clique[0], 0, 0, &made[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&made[1], 1, id, 0, &config));
  EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
  for (ncclComm_t comm : made) EXPECT_EQ(comm, nullptr);

  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    EXPECT_NCCL(ncclCommSplit(clique[r], 0, r, &made[r], r == 0 ? &config : nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  for (ncclComm_t comm : made) EXPECT_NCCL(ncclCommDestroy(comm));
}

// Structures of all releases, from 2.14's 24 bytes to one of the future.
TEST(Communicator, ConfigOfEverySize) {
  for (const size_t size : {24, 40, 48, 72, 80, 88, 96}) {
    alignas(8) char bytes[128];
    std::memset(bytes, 0x77, sizeof(bytes));
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
    std::memcpy(bytes, &initial, std::min(size, sizeof(initial)));
    std::memcpy(bytes, &size, sizeof(size));
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comm;
    ASSERT_NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, reinterpret_cast<ncclConfig_t*>(bytes)));
    EXPECT_NCCL(ncclCommDestroy(comm));
  }
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = NCCL_CONFIG_INITIALIZER;
  config.size = 8;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 7;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
}

TEST(Communicator, RegistrationAndMemory) {
  const Clique clique(1);
  void *memory = nullptr, *handle = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, 1000));
  EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT);
  std::memset(memory, 1, 1000);
  EXPECT_NCCL(ncclCommRegister(clique[0], memory, 1000, &handle));
  EXPECT_NE(handle, nullptr);
  EXPECT_NCCL(ncclCommDeregister(clique[0], handle));
  ncclWindow_t window = nullptr;
  EXPECT_NCCL(ncclCommWindowRegister(clique[0], memory, 1000, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT_NE(window, nullptr);
  EXPECT_NCCL(ncclCommWindowDeregister(clique[0], window));
  EXPECT_NCCL(ncclMemFree(memory));
  EXPECT_NCCL(ncclMemFree(nullptr));
}

TEST(Communicator, VersionAndTexts) {
  int version = 0;
  EXPECT_NCCL(ncclGetVersion(&version));
  EXPECT_EQ(version, 22809);
  for (int code = 0; code <= 9; ++code) {
    EXPECT_GT(std::strlen(ncclGetErrorString(static_cast<ncclResult_t>(code))), 3u);
  }
}

}  // namespace
}  // namespace hostnccl_test
