// Communicators whose making is tried again: a rank may still be at the last try, or already at the
// next one.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "free_port.h"
#include "reference.h"

namespace hostnccl_test {
namespace {

ncclResult_t shrink(ncclComm_t comm, std::vector<int> excluded, ncclComm_t* part,
                    ncclConfig_t* config = nullptr) {
  return ncclCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), part, config,
                        NCCL_SHRINK_ABORT);
}

void expect_to_be_shrunk(ncclComm_t comm, int rank, const std::vector<int>& excluded) {
  ncclComm_t part;
  ASSERT_NCCL(shrink(comm, excluded, &part));
  expect_sum(part, rank, 1);
  EXPECT_NCCL(ncclCommDestroy(part));
}

// Rank 2, too, is no more, which the others do not know at first. They do not begin together.
TEST(Retry, OfAShrinkForWhichARankDidNotCome) {
  const Clique clique(4);
  setenv("HOSTNCCL_TIMEOUT", "2", 1);
  on_threads(2, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ncclComm_t part;
    EXPECT_NE(ncclSuccess, shrink(clique[rank], {3}, &part));
    EXPECT_EQ(part, nullptr);
    expect_to_be_shrunk(clique[rank], rank, {2, 3});
  });
  unsetenv("HOSTNCCL_TIMEOUT");
}

// Rank 1 cannot begin the first one, for which rank 0 waits.
TEST(Retry, ARankMayComeForTheNextShrinkWhileOthersWaitForTheLast) {
  const Clique clique(3);
  setenv("HOSTNCCL_TIMEOUT", "2", 1);
  on_threads(2, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (rank == 1) config.blocking = 7;
    ncclComm_t part;
    EXPECT_EQ(rank == 0 ? ncclSystemError : ncclInvalidArgument,
              shrink(clique[rank], {2}, &part, &config));
    expect_to_be_shrunk(clique[rank], rank, {2});
  });
  unsetenv("HOSTNCCL_TIMEOUT");
}

// Rank 1 comes for one that rank 0 has given up: it is told at once, or rank 0 would give up the
// next one, too.
TEST(Retry, ARankMayComeForAShrinkThatIsOver) {
  const Clique clique(3);
  ncclComm_t part;
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  EXPECT_EQ(ncclSystemError, shrink(clique[0], {2}, &part));
  unsetenv("HOSTNCCL_TIMEOUT");
  on_threads(2, [&](int rank) {
    ncclComm_t late;
    if (rank == 1) {
      EXPECT_NE(ncclSuccess, shrink(clique[1], {2}, &late));
      EXPECT_EQ(late, nullptr);
    }
    expect_to_be_shrunk(clique[rank], rank, {2});
  });
}

// Its meeting ends with it: another may be held at the same address.
TEST(Retry, OfAnInitialisationThatWasAborted) {
  const std::string address = "127.0.0.1:" + std::to_string(terse::test::free_port());
  setenv("NCCL_COMM_ID", address.c_str(), 1);
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t given_up;
  ASSERT_EQ(ncclInProgress, ncclCommInitRankConfig(&given_up, 2, id, 0, &config));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_NCCL(ncclCommAbort(given_up));
  on_threads(2, [&](int rank) {
    ncclComm_t comm;
    ASSERT_NCCL(ncclCommInitRank(&comm, 2, id, rank));
    expect_sum(comm, rank, 1);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
  unsetenv("NCCL_COMM_ID");
}

}  // namespace
}  // namespace hostnccl_test
