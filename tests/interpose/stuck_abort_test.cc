// Communicators on which terse waits inside of NCCL, which only their abort ends
// (fake/stuck_nccl.cc), under TERSE_SCHEME=int8.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <latch>
#include <thread>

#include "clients.h"

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(StuckAbort, DoesNotWaitForWhatItAloneCanEnd) {
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

template <class Function>
Function of_nccl(const char* name) {
  void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(nccl, name));
}

ncclResult_t make_in_group(ncclComm_t* comm, const ncclUniqueId& id, int rank) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(comm, 2, id, rank), ncclSuccess);
  return ncclGroupEnd();
}

// As by a program's watchdog. What is left is not terse's to abort: another communicator may have
// the handle.
TEST(StuckAbort, OfAnInitIsMadeOnce) {
  const auto wait_until_stuck = of_nccl<void (*)(ncclComm_t)>("wait_until_stuck");
  const auto aborts_of = of_nccl<int (*)(ncclComm_t)>("aborts_of");
  ASSERT_TRUE(wait_until_stuck != nullptr && aborts_of != nullptr);
  for (const bool grouped : {false, true}) {
    std::latch stuck(2), over(2);
    on_threads(2, [&](int rank, const ncclUniqueId& id) {
      ncclComm_t comm = nullptr, aborted = nullptr;
      int before = 0;
      std::thread watchdog([&] {
        aborted = seen(comm);
        wait_until_stuck(aborted);
        stuck.arrive_and_wait();  // whose peer is aborted before may not come that far
        before = aborts_of(aborted);
        EXPECT_EQ(ncclCommAbort(aborted), ncclSuccess);
      });
      EXPECT_NE(grouped ? make_in_group(&comm, id, rank) : ncclCommInitRank(&comm, 2, id, rank),
                ncclSuccess);
      EXPECT_EQ(comm, nullptr);
      watchdog.join();
      EXPECT_EQ(aborts_of(aborted), before + 1);
      over.arrive_and_wait();
    });
  }
}

}  // namespace
}  // namespace terse::test
