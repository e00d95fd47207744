// NCCLs that keep what a thread has begun in that thread's memory (fake/threaded_nccl.cc): the
// threads that compare settings in the background leave nothing there when they end.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "clients.h"
#include "threads_of_process.h"

namespace terse::test {
namespace {

TEST(Jobs, OfTheThreadsOfAnAdmissionAreOverBeforeThem) {
  const auto threads = threads_of_this_process();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2];
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&comms[r], 2, id, r, &config);
  const ncclResult_t made = ncclGroupEnd();
  for (const ncclComm_t comm : comms) ASSERT_EQ(settled(made, comm), ncclSuccess);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (threads_of_this_process() > threads && std::chrono::steady_clock::now() < limit)
    usleep(1000);
  void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(nccl, nullptr) << dlerror();
  const auto jobs_left = reinterpret_cast<int (*)()>(dlsym(nccl, "jobs_left"));
  ASSERT_NE(jobs_left, nullptr);
  EXPECT_EQ(jobs_left(), 0);
}

}  // namespace
}  // namespace terse::test
