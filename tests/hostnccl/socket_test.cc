// Sockets: who listens, who connects, and that what goes wrong there is said.
#include "socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "bootstrap.h"
#include "logged.h"

namespace hostnccl {
namespace {

using namespace std::chrono_literals;

TEST(Sockets, APortThatIsAboutToBeFreeIsWaitedFor) {
  Socket last = Socket::listen(local_address("lo"));
  const Address address = last.bound();
  EXPECT_THROW(Socket::listen(address), Failure);
  EXPECT_THROW(Socket::listen(address, {Clock::now() + 50ms}), Failure);
  std::thread leaving([&] {
    std::this_thread::sleep_for(100ms);
    last.close();
  });
  EXPECT_NO_THROW(EXPECT_TRUE(Socket::listen(address, {Clock::now() + 20s}).open()));
  leaving.join();
}

// ---- Where the first port that a socket is given is the one that it calls ----

constexpr int kRefused = 10, kConnected = 11, kNotPossible = 12;  // exit statuses

bool enter_network_of_two_ports() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::string("lo").copy(loopback.ifr_name, IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  if (any < 0 || ioctl(any, SIOCSIFFLAGS, &loopback) != 0) return false;
  const int range = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
  return range >= 0 && write(range, "50000 50001", 11) == 11;
}

int connect_where_nobody_listens() {
  if (!enter_network_of_two_ports()) return kNotPossible;
  try {
    Socket::connect(parse_address("127.0.0.1:50000"), {Clock::now() + 300ms});
    return kConnected;
  } catch (const Failure&) {
    return kRefused;
  }
}

TEST(Sockets, NoneConnectsToItself) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(connect_where_nobody_listens());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPossible) GTEST_SKIP() << "no network of its own";
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

// ---- Where there are no more descriptors ----

class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY);  // all below are taken
    close(next);
    const rlimit none{static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Nobody can go to make room: the caller waits until the program closes something.
TEST_F(Logged, AMeetingWaitsForRoomForItsCallers) {
  const MeetingPoint point = from_unique_id(make_unique_id(read_settings()));
  Socket caller(socket(point.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string cause = "bootstrap: accept: Too many open files; a caller has to wait";
  const auto limit = Clock::now() + 20s;
  {
    const NoMoreDescriptors none;
    ASSERT_EQ(connect(caller.fd(), &point.address.any, point.address.size()), 0);
    while (!log_says(cause) && Clock::now() < limit) std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(log_says(cause));
  Hello hello{};
  hello.magic = point.magic;
  hello.size = 1;
  hello.listener = point.address;
  caller.send(&hello, sizeof(hello), {limit});
  EXPECT_EQ(caller.receive_text({limit}).size(), sizeof(Address));
}

}  // namespace
}  // namespace hostnccl
