// The watch over the other ranks, of two that are moved along by hand.
#include "liveness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <thread>
#include <vector>

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{200};

class Watch : public ::testing::Test {
 protected:
  Watch() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    std::vector<Socket> hubs(2), others(1);
    hubs[1] = Socket(fds[0]);
    others[0] = Socket(fds[1]);
    hub_ = std::make_unique<Liveness>(0, 2, std::move(hubs), kTimeout);
    other_ = std::make_unique<Liveness>(1, 2, std::move(others), kTimeout);
  }
  std::unique_ptr<Liveness> hub_, other_;
};

// Nobody has beaten meanwhile, and nobody is gone.
TEST_F(Watch, AJobMayBeSuspendedForLongerThanTheTimeout) {
  for (int i = 0; i < 2; ++i) {
    hub_->service();
    other_->service();
  }
  std::this_thread::sleep_for(2 * kTimeout);
  for (int i = 0; i < 2; ++i) {
    hub_->service();
    EXPECT_FALSE(hub_->failure().has_value());
    other_->service();
    EXPECT_FALSE(other_->failure().has_value());
  }
}

TEST_F(Watch, OneThatIsSilentMeanwhileIsLost) {
  while (!hub_->failure()) {
    hub_->service();
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(hub_->failure()->text(), "rank 1 was silent for 0.2 s");
}

// A forked child may have a copy of it, and epoll would then report it for good.
TEST_F(Watch, ALostConnectionCanStillBeTakenFromEpoll) {
  const std::vector<int> watched = hub_->fds();
  std::vector<int> closed;
  hub_->before_close([&](int fd) {
    EXPECT_NE(fcntl(fd, F_GETFD), -1);
    closed.push_back(fd);
  });
  other_.reset();
  hub_->service();
  EXPECT_TRUE(hub_->failure().has_value());
  EXPECT_EQ(closed, watched);
  EXPECT_TRUE(hub_->fds().empty());
}

}  // namespace
}  // namespace hostnccl
