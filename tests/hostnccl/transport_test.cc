// Connecting to a rank that goes meanwhile.
#include "transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "comm.h"
#include "meeting.h"

// In place of the C library's, for UCX too: the peer can go between a connection and its first
// bytes.
extern "C" [[gnu::visibility("default")]] ssize_t send(int fd, const void* data, size_t bytes,
                                                       int flags) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
}

namespace hostnccl {
namespace {

std::set<int> listening_sockets() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof(listens);
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    if (listens != 0) found.insert(fd);
  }
  return found;
}

// Listens where a transport did that is no more, resets the first connection and ends.
class Resetter {
 public:
  Resetter() {
    const std::set<int> before = listening_sockets();
    auto transport = std::make_unique<Transport>(1, "lo");
    address_ = transport->address();
    std::vector<Address> bound;
    for (const int fd : listening_sockets()) {
      if (before.contains(fd)) continue;
      Address& address = bound.emplace_back();
      socklen_t size = sizeof(address);
      EXPECT_EQ(getsockname(fd, &address.any, &size), 0);
    }
    transport.reset();
    for (const Address& address : bound) sockets_.push_back(Socket::listen(address));
    thread_ = std::thread([this] {
      while (!stop_ && !reset_)
        for (size_t i = 0; i < sockets_.size(); ++i) reset(sockets_[i].try_accept());
    });
  }

  ~Resetter() {
    stop_ = true;
    thread_.join();
  }

  const std::string& address() const { return address_; }

  void wait_for_reset() const {
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    while (!reset_ && Clock::now() < deadline) std::this_thread::yield();
  }

 private:
  void reset(Socket socket) {
    if (!socket.open()) return;
    const linger at_once{1, 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    sockets_.clear();
    socket.close();
    reset_ = true;
  }

  std::string address_;
  std::vector<Socket> sockets_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> reset_{false};
  std::thread thread_;
};

// Rank 1 takes part in the bootstrap, resets rank 0's connection and is gone. UCX 1.13 can then
// abort the process.
TEST(Transport, APeerThatGoesWhileItIsConnectedToIsAFailure) {
  setenv("HOSTNCCL_TIMEOUT", "50", 1);
  const Settings settings = read_settings();
  for (int round = 0; round < 3; ++round) {
    const Resetter resetter;
    const ncclUniqueId id = make_unique_id(settings);
    std::thread peer([&] {
      const Flag stop;
      const Limit limit{Clock::now() + settings.timeout, &stop};
      const MeetingPoint point = from_unique_id(id);
      Listener listener = Listener::open(settings);
      Star star = Star::join(point, {point.magic, 1, 2}, listener, settings, stop);
      const std::string at(reinterpret_cast<const char*>(&listener.address), sizeof(Address));
      star.all_gather(at, limit);
      star.all_gather(resetter.address(), limit);
      resetter.wait_for_reset();
    });
    const CommPtr comm = Comm::start({}, meet_by_id(id, 0, 2));
    try {
      comm->wait_until_ready();
      ADD_FAILURE() << "round " << round << ": no failure";
    } catch (const Failure& failure) {
      EXPECT_NE(failure.text().find("rank 1"), std::string::npos) << failure.text();
    }
    peer.join();
    comm->abort();
  }
}

}  // namespace
}  // namespace hostnccl
