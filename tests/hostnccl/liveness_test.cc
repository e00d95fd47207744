// The watch over the other ranks, of two that are moved along by hand.
#include "liveness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{200};

class PeerWatch : public ::testing::Test {
 protected:
  PeerWatch() {
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
TEST_F(PeerWatch, ToleratesAJobThatIsSuspended) {
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

TEST_F(PeerWatch, LosesAPeerThatIsSilentMeanwhile) {
  while (!hub_->failure()) {
    hub_->service();
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(hub_->failure()->text(), "rank 1 was silent for 0.2 s");
}

// As a whole it will not come any more.
TEST_F(PeerWatch, LosesAPeerThatEndsWithinANotice) {
  ASSERT_EQ(write(other_->fds()[0], "half", 4), 4);
  other_.reset();
  hub_->service();
  ASSERT_TRUE(hub_->failure().has_value());
  EXPECT_EQ(hub_->failure()->text(), "rank 1 ended without a goodbye");
}

// A forked child may have a copy of it, and epoll would then report it for good.
TEST_F(PeerWatch, RemovesALostConnectionFromEpoll) {
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

// What is there of it wakes nobody before the rest is there, or nothing more comes.
TEST(Record, IsTakenAsAWhole) {
  const Limit limit{Clock::now() + std::chrono::seconds(10)};
  Socket listener = Socket::listen(local_address("lo"));
  Socket from = Socket::connect(listener.bound(), limit), to;
  while (!to.open()) to = listener.try_accept();
  char record[8];
  to.wake_by(sizeof(record));
  const auto receive_half = [&] {
    from.send("half", 4, limit);
    while (recv(to.fd(), record, sizeof(record), MSG_PEEK) != 4) std::this_thread::yield();
  };
  receive_half();
  pollfd waiting{to.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  EXPECT_EQ(to.try_receive(record, sizeof(record)), Socket::Received::kNothingYet);
  from.send("half", 4, limit);
  await(to.fd(), POLLIN, limit);
  EXPECT_EQ(to.try_receive(record, sizeof(record)), Socket::Received::kRecord);
  EXPECT_EQ(std::string(record, sizeof(record)), "halfhalf");
  receive_half();
  from.close();
  await(to.fd(), POLLIN, limit);
  EXPECT_EQ(to.try_receive(record, sizeof(record)), Socket::Received::kEnd);
}

}  // namespace
}  // namespace hostnccl
