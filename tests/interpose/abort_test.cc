// What an aborted communicator held ends with its work.
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;

size_t threads_of_this_process() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

// Two ranks of this thread, which sum, if they do, and are aborted while that may still run.
void make_and_abort(bool sum) {
  constexpr size_t kCount = 1 << 20;
  static std::vector<float> data[2] = {std::vector<float>(kCount), std::vector<float>(kCount)};
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2 && sum; ++r) {
    float* const x = data[r].data();
    EXPECT_EQ(ncclAllReduce(x, x, kCount, ncclFloat32, ncclSum, comms[r], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
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

}  // namespace
}  // namespace terse::test
