// What an aborted communicator held ends with its work.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "clients.h"
#include "host_stream.h"
#include "nodes_of.h"
#include "terse/terse.h"
#include "threads_of_process.h"

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;

// Two ranks of this thread.
struct Pair {
  Pair() { EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess); }

  // In memory that stays, for it may still run when they are gone.
  void sum(int rank) const {
    constexpr size_t kCount = 1 << 20;
    static std::vector<float> data[2] = {std::vector<float>(kCount), std::vector<float>(kCount)};
    float* const x = data[rank].data();
    EXPECT_EQ(ncclAllReduce(x, x, kCount, ncclFloat32, ncclSum, comms[rank], streams[rank]->get()),
              ncclSuccess);
  }
  void sum_together() const {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (const int rank : {0, 1}) sum(rank);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }
  // Rank 0 waits for another one that does not come.
  void get_stuck() const {
    sum_together();  // the first call of a kind is one at which ranks wait for each other
    sum(0);
  }
  void abort() const {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }

  ncclComm_t comms[2];
  std::unique_ptr<HostStream> streams[2] = {std::make_unique<HostStream>(),
                                            std::make_unique<HostStream>()};
};

// They sum, if they do, and are aborted while that may still run.
void make_and_abort(bool sum) {
  const Pair pair;
  if (sum) pair.sum_together();
  pair.abort();
}

// Until there are no more threads than before; the last ones may take a while to go.
void expect_no_more_threads_than(size_t before) {
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (threads_of_this_process() > before && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(threads_of_this_process(), before);
}

TEST(Abort, LeavesNoThreadBehind) {
  make_and_abort(true);
  for (const bool sum : {true, false}) {
    const size_t before = threads_of_this_process();
    for (int i = 0; i < 20; ++i) make_and_abort(sum);
    expect_no_more_threads_than(before);
  }
}

// As where a program's watchdog aborts what its main thread destroys.
TEST(AbortedDestroy, EndsAndLeavesTheHandleAlone) {
  const Pair pair;
  pair.get_stuck();
  auto destroyed =
      std::async(std::launch::async, [comm = pair.comms[0]] { return ncclCommDestroy(comm); });
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  pair.abort();
  EXPECT_EQ(destroyed.get(), ncclSuccess) << ncclGetLastError(nullptr);
}

// The abort comes while the thread that compares settings makes what terse keeps of the
// communicator (fake/late_nccl.cc).
TEST(AbortedInit, LeavesNothingOfTheCommunicator) {
  make_and_abort(true);
  const size_t before = threads_of_this_process();
  void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(nccl, nullptr) << dlerror();
  const auto wait_until_asked =
      reinterpret_cast<void (*)(ncclComm_t)>(dlsym(nccl, "wait_until_asked"));
  ASSERT_NE(wait_until_asked, nullptr);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  wait_until_asked(comm);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  expect_no_more_threads_than(before);
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (nodes_of(comm) != 0 && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(nodes_of(comm), 0u);
}

// NCCL does nothing before the group's end (fake/deferring_nccl.cc).
TEST(GroupedAborts, WaitAtTheEndOfTheGroupAlone) {
  const auto stuck = [] {
    std::vector<Pair> pairs(8);
    for (const Pair& pair : pairs) pair.get_stuck();
    return pairs;
  };
  for (const Pair& pair : stuck()) pair.abort();
  const size_t before = threads_of_this_process();
  std::vector<Pair> pairs = stuck();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  const auto start = Clock::now();
  for (const Pair& pair : pairs) pair.abort();
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(1500)) << "16 times 100 ms are more";
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  pairs.clear();  // with its streams
  expect_no_more_threads_than(before);
}

}  // namespace
}  // namespace terse::test
