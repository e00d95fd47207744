// Ranks as processes: they come and go in order, late, without a word, and by SIGKILL.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <tuple>

#include "reference.h"
#include "worker.h"

namespace hostnccl_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// The worker processes of one communicator, in a directory of their own.
class Workers {
 public:
  Workers(const std::string& mode, int ranks, const char* timeout = "30") {
    std::string pattern = std::filesystem::temp_directory_path() / "hostnccl_test.XXXXXX";
    directory_ = mkdtemp(pattern.data());
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        setenv("HOSTNCCL_TIMEOUT", timeout, 1);
        execl(HOSTNCCL_WORKER, HOSTNCCL_WORKER, mode.c_str(), std::to_string(rank).c_str(),
              std::to_string(ranks).c_str(), id().c_str(), nullptr);
        _exit(127);
      }
      pids_.push_back(pid);
    }
  }
  ~Workers() {
    for (const pid_t pid : pids_) {
      if (pid > 0) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }

  bool wait_until_ready() const {
    const Clock::time_point limit = Clock::now() + 20s;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      while (!std::filesystem::exists(id() + ".ready" + std::to_string(rank))) {
        if (Clock::now() > limit) return false;
        std::this_thread::sleep_for(2ms);
      }
    }
    return true;
  }

  void signal(int rank, int signal) const { kill(pids_[static_cast<size_t>(rank)], signal); }

  // The exit status; -1 by a signal, -2 when it does not come in time.
  int await(int rank, Clock::duration patience) {
    pid_t& pid = pids_[static_cast<size_t>(rank)];
    const Clock::time_point limit = Clock::now() + patience;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (Clock::now() > limit) return -2;
      std::this_thread::sleep_for(1ms);
    }
    pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::string id() const { return directory_ + "/id"; }
  std::string directory_;
  std::vector<pid_t> pids_;
};

TEST(Processes, Collectives) {
  for (const int ranks : {1, 2, 3, 5}) {
    Workers workers("collectives", ranks);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(0, workers.await(rank, 30s)) << rank;
  }
}

TEST(Processes, EndWithoutDestroy) {
  Workers workers("no_destroy", 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(0, workers.await(rank, 20s)) << rank;
}

// Nobody runs what a program asks for when its process is about to end; it is told so.
TEST(Processes, CallsOfAStaticDestructorEnd) {
  for (int round = 0; round < 3; ++round) {
    Workers workers("at_exit", 1);
    ASSERT_EQ(0, workers.await(0, 10s));
  }
}

// Success is final: what was sent before it arrives, whatever the process does next.
class LastMessages : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Before, LastMessages, ::testing::Values("destroy", "finalize"));

TEST_P(LastMessages, ArriveThoughTheProcessGoesAtOnce) {
  for (int round = 0; round < 12; ++round) {
    Workers workers(GetParam(), 4);
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(0, workers.await(rank, 20s)) << "rank " << rank << ", round " << round;
    }
  }
}

// What has arrived and was not asked for is there when its sender has long gone.
class Inherited : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(When, Inherited, ::testing::Values("inherit", "inherit_exit"));

TEST_P(Inherited, MessagesAreReceivedLater) {
  Workers workers(GetParam(), 2);
  EXPECT_EQ(0, workers.await(0, 20s));
  EXPECT_EQ(0, workers.await(1, 20s));
}

// Nothing arrives there, and that is not waited for without end.
TEST(Processes, OneThatHasStoppedDoesNotHoldUpDestroy) {
  Workers workers("stopped", 2, "1");
  EXPECT_EQ(0, workers.await(0, 20s));
}

// Alive but late by more than the timeout: nobody gives it up.
TEST(Processes, ALateRankIsWaitedFor) {
  Workers workers("late", 3, "4");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(0, workers.await(rank, 30s)) << rank;
}

class Killed : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

// Rank 0, the hub of the liveness watch, and others, at random moments.
TEST_P(Killed, IsReportedByAllOthers) {
  const int ranks = 4;
  const auto [mode, victim] = GetParam();
  std::mt19937 random(static_cast<unsigned>(victim) + 17);
  for (int round = 0; round < 3; ++round) {
    Workers workers(mode, ranks);
    ASSERT_TRUE(workers.wait_until_ready());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 150000));
    workers.signal(victim, SIGKILL);
    EXPECT_EQ(-1, workers.await(victim, 30s));
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(kRemoteError, workers.await(rank, 30s)) << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rank, Killed,
                         ::testing::Combine(::testing::Values("loop", "overlap"),
                                            ::testing::Range(0, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + std::to_string(std::get<1>(info.param));
                         });

// A host that vanishes says nothing: the connections stay open, only the beats stop.
TEST(Processes, ASilentRankIsGivenUpAfterTheTimeout) {
  for (const int victim : {0, 2}) {
    Workers workers("loop", 3, "1");
    ASSERT_TRUE(workers.wait_until_ready());
    std::this_thread::sleep_for(50ms);
    workers.signal(victim, SIGSTOP);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(kRemoteError, workers.await(rank, 30s)) << rank;
    }
  }
}

}  // namespace
}  // namespace hostnccl_test
