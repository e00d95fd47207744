// The end of another process, of which a thread learns.
#include "backend/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <list>
#include <thread>

namespace terse::test {
namespace {

using namespace std::chrono_literals;

// Process that waits until it is killed.
class Child {
 public:
  Child() : id_(fork()) {
    while (id_ == 0) pause();
  }
  ~Child() {
    kill();
    waitpid(id_, nullptr, 0);
  }
  pid_t id() const { return id_; }
  void kill() const { ::kill(id_, SIGKILL); }

 private:
  const pid_t id_;
};

void wait_for(const std::atomic<int>& count, int value) {
  for (int i = 0; i < 3'000 && count < value; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(count, value);
}

TEST(ProcessWatch, LearnsOfAKilledProcessOnce) {
  std::atomic<int> ends = 0;
  const Child child;
  const ProcessWatch watch(child.id(), [&] { ++ends; });
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(ends, 0);
  child.kill();
  wait_for(ends, 1);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(ends, 1);
}

TEST(ProcessWatch, WatchesManyAtATime) {
  std::atomic<int> ends = 0, others = 0;
  const Child first, second, third;
  std::list<ProcessWatch> watches;
  for (const Child* child : {&first, &second}) watches.emplace_back(child->id(), [&] { ++ends; });
  watches.emplace_back(third.id(), [&] { ++others; });
  watches.emplace_back(first.id(), [&] { ++ends; });
  first.kill();
  wait_for(ends, 2);
  second.kill();
  wait_for(ends, 3);
  EXPECT_EQ(others, 0);
}

TEST(ProcessWatch, IsSilentOnceItHasEnded) {
  std::atomic<int> ends = 0, lasting = 0;
  const Child child;
  {
    const ProcessWatch watch(child.id(), [&] { ++ends; });
  }
  const ProcessWatch watch(child.id(), [&] { ++lasting; });
  child.kill();
  wait_for(lasting, 1);
  EXPECT_EQ(ends, 0);
}

// As where a program forks beside the thread.
TEST(ProcessWatch, EndsInAForkedChild) {
  const Child child;
  auto watch = std::make_unique<ProcessWatch>(child.id(), [] {});
  const pid_t forked = fork();
  if (forked == 0) {
    watch.reset();
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(forked, &status, 0), forked);
  EXPECT_EQ(status, 0);
}

TEST(ProcessWatch, KnowsTheNamespaceOfProcesses) { EXPECT_NE(process_namespace(), 0u); }

}  // namespace
}  // namespace terse::test
