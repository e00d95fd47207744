// fork() once the library is in use: in the child, what belongs to the parent is refused in words;
// whatever it does or leaves, the child ends, and the parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "reference.h"

namespace {
bool is_child = false;
}
// In a child, what only the parent's threads knew of has no owner.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() { return is_child; }

namespace hostnccl_test {
namespace {

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer ends a forked child that starts threads";
#endif
  }
};

// The address sanitizer does not let go of its allocator's locks for a child, as the C library
// does: where another thread has just begun, and allocates, its child would wait for ever.
void wait_until_the_other_threads_sleep() {
#ifdef __SANITIZE_ADDRESS__
  const auto sleeps = [](const std::filesystem::path& task) {
    std::string stat;
    std::getline(std::ifstream(task / "stat"), stat);  // "pid (name) state ..."
    return task.filename() == std::to_string(getpid()) || stat.find(") S ") != std::string::npos;
  };
  for (int in_a_row = 0; in_a_row < 3;) {
    using std::filesystem::directory_iterator;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const bool all =
        std::all_of(directory_iterator("/proc/self/task"), directory_iterator(), sleeps);
    in_a_row = all ? in_a_row + 1 : 0;
  }
#endif
}

// The status of a child that runs `body` and exits; a signal's number where it does not end.
int child(const std::function<void()>& body) {
  std::fflush(nullptr);
  wait_until_the_other_threads_sleep();
  const pid_t pid = fork();
  if (pid == 0) {
    is_child = true;
    alarm(60);
    body();
    std::fflush(nullptr);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

::testing::AssertionResult refused(ncclResult_t result, const std::string& why) {
  const std::string text = ncclGetLastError(nullptr);
  if (result == ncclInvalidUsage && text.find(why) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << result << ": " << text;
}

void sum(const Clique& clique) {
  float values[2] = {1, 2};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&values[r], &values[r], 1, ncclFloat32, ncclSum, comm, nullptr);
  }));
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
}

// What a child finds of a parent with all of this.
void expect_refusals(ncclComm_t comm, cudaStream_t stream, hostncclEvent_t event) {
  const std::string why = "was not made in this process, a forked child";
  float value = 1;
  EXPECT_TRUE(refused(ncclGroupEnd(), "before this process was forked"));
  EXPECT_TRUE(refused(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), why));
  EXPECT_TRUE(refused(ncclSend(&value, 1, ncclFloat32, 1, comm, stream), why));
  ncclResult_t state;
  EXPECT_TRUE(refused(ncclCommGetAsyncError(comm, &state), why));
  ncclComm_t part;
  EXPECT_TRUE(refused(ncclCommSplit(comm, 0, 0, &part, nullptr), why));
  EXPECT_TRUE(refused(ncclCommFinalize(comm), why));
  EXPECT_TRUE(refused(ncclCommAbort(comm), why));
  EXPECT_TRUE(refused(ncclCommDestroy(comm), why));
  EXPECT_TRUE(refused(hostncclStreamSynchronize(stream), why));
  EXPECT_TRUE(refused(hostncclStreamQuery(stream), why));
  EXPECT_TRUE(refused(hostncclStreamDestroy(stream), why));
  EXPECT_TRUE(refused(hostncclEventRecord(event, nullptr), why));
  EXPECT_TRUE(refused(hostncclEventSynchronize(event), why));
  EXPECT_TRUE(refused(ncclCommInitAll(&part, 1, nullptr), "this process was forked"));
}

// In a process of its own, so that this one has no communicators.
TEST_F(Fork, TheParentsCommunicatorsAndStreamsAreRefused) {
  EXPECT_EQ(0, child([] {
              const Clique clique(2);
              cudaStream_t stream;
              hostncclEvent_t event;
              ASSERT_NCCL(hostncclStreamCreate(&stream));
              ASSERT_NCCL(hostncclEventCreate(&event));
              sum(clique);
              float values[2] = {1, 2};
              ASSERT_NCCL(ncclGroupStart());
              for (int r = 0; r < 2; ++r) {
                if (r == 1) {
                  EXPECT_EQ(0, child([&] { expect_refusals(clique[0], stream, event); }));
                  EXPECT_EQ(0, child([] {}));
                }
                ASSERT_NCCL(ncclAllReduce(&values[r], &values[r], 1, ncclFloat32, ncclSum,
                                          clique[r], nullptr));
              }
              ASSERT_NCCL(ncclGroupEnd());
              EXPECT_EQ(values[0], 3);
              sum(clique);
              EXPECT_NCCL(hostncclEventDestroy(event));
              EXPECT_NCCL(hostncclStreamDestroy(stream));
            }));
}

// A launcher makes the id, and its children the communicator.
TEST_F(Fork, AChildMayBeginAnew) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  cudaStream_t stream;
  ASSERT_NCCL(hostncclStreamCreate(&stream));
  EXPECT_EQ(0, child([&] {
              EXPECT_TRUE(refused(hostncclStreamDestroy(stream), "forked child"));
              ncclComm_t comm;
              ASSERT_NCCL(ncclCommInitRank(&comm, 1, id, 0));
              EXPECT_NCCL(ncclCommDestroy(comm));
              EXPECT_NCCL(hostncclStreamCreate(&stream));
              const Clique clique(2);
              sum(clique);
              EXPECT_NCCL(hostncclStreamDestroy(stream));
            }));
  EXPECT_NCCL(hostncclStreamDestroy(stream));
}

}  // namespace
}  // namespace hostnccl_test
