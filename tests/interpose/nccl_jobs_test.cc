// NCCLs that keep what a thread has begun in that thread's memory (fake/threaded_nccl.cc): the
// threads that compare settings in the background leave nothing there when they end, also where
// that fails or is given up.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "clients.h"
#include "threads_of_process.h"

namespace terse::test {
namespace {

class NcclJobs : public testing::Test {
 protected:
  // Of none a thread has ended before.
  static void expect_none_left(size_t threads) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (threads_of_this_process() > threads && std::chrono::steady_clock::now() < limit)
      usleep(1000);
    EXPECT_LE(threads_of_this_process(), threads);
    void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(nccl, nullptr) << dlerror();
    const auto jobs_left = reinterpret_cast<int (*)()>(dlsym(nccl, "jobs_left"));
    ASSERT_NE(jobs_left, nullptr);
    EXPECT_EQ(jobs_left(), 0);
  }

  // One whose settings are being compared with those of a rank that knows nothing of terse.
  void begin() {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::thread other([&] { peer_ = made_unseen(1, 2, id); });
    ncclConfig_t config = non_blocking();
    state_ = ncclCommInitRankConfig(&comm_, 2, id, 0, &config);
    other.join();
    usleep(300'000);
    ASSERT_EQ(ncclCommGetAsyncError(comm_, &state_), ncclSuccess);
    ASSERT_EQ(state_, ncclInProgress);
  }

  ncclComm_t comm_ = nullptr, peer_ = nullptr;
  ncclResult_t state_ = ncclSuccess;
};

TEST_F(NcclJobs, EndBeforeTheThreadOfAnAsyncInit) {
  const size_t threads = threads_of_this_process();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2];
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&comms[r], 2, id, r, &config);
  const ncclResult_t made = ncclGroupEnd();
  for (const ncclComm_t comm : comms) ASSERT_EQ(settled(made, comm), ncclSuccess);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  expect_none_left(threads);
}

TEST_F(NcclJobs, EndBeforeTheThreadOfAnAbandonedInit) {
  const size_t threads = threads_of_this_process();
  begin();
  EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
  EXPECT_EQ(pncclCommAbort(peer_), ncclSuccess);
  expect_none_left(threads);
}

TEST_F(NcclJobs, EndBeforeTheThreadOfAFailedInit) {
  const size_t threads = threads_of_this_process();
  begin();
  EXPECT_EQ(pncclCommAbort(peer_), ncclSuccess);
  EXPECT_NE(settled(state_, comm_), ncclSuccess);
  usleep(300'000);
  EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
  expect_none_left(threads);
}

}  // namespace
}  // namespace terse::test
