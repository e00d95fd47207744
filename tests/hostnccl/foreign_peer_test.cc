// Strangers at the ports of ranks: who is no rank of the communicator neither ends one, nor gets a
// byte into its messages, nor keeps one out.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap.h"
#include "reference.h"
#include "transport.h"
#include "ucx.h"

// By which UCX's thread lets connections in (tcp_ports.cc).
extern "C" ucs_status_t ucs_socket_accept(int fd, sockaddr* address, socklen_t* size,
                                          int* accepted);

// Leaves out what a UCX that has failed keeps for good. LeakSanitizer asks for it.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() {
  return "leak:ucs_malloc";
}

namespace hostnccl {
namespace {

// What a worker of UCX's takes for a rank's connection, and a header behind it (id 99, no bytes)
// that it asserts not to get.
std::string ucx_magic_and_header() {
  constexpr uint64_t kMagic = 0xCAFEBABE12345678;
  std::string bytes(reinterpret_cast<const char*>(&kMagic), sizeof(kMagic));
  return bytes + std::string("\x63\0\0\0\0", 5);
}

std::string noise() {
  std::string bytes(4096, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  return bytes;
}

const std::array<std::string, 4> kOpenings = {ucx_magic_and_header(), noise(),
                                              ucx_magic_and_header().substr(0, 8) + noise(), ""};

constexpr unsigned kEstablished = 1, kListens = 10;  // Linux's numbers

// The addresses of that process's TCP sockets in this state.
std::vector<Address> sockets_in(unsigned wanted, pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::set<std::string> sockets;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", gone))
    sockets.insert(std::filesystem::read_symlink(entry.path(), gone));
  std::vector<Address> ports;
  std::ifstream table(process + "/net/tcp");
  for (std::string line; std::getline(table, line);) {
    unsigned host = 0, port = 0, state = 0;
    unsigned long inode = 0;
    std::sscanf(line.c_str(), "%*s %x:%x %*s %x %*s %*s %*s %*s %*s %lu", &host, &port, &state,
                &inode);
    if (state != wanted || !sockets.contains("socket:[" + std::to_string(inode) + "]")) continue;
    Address& address = ports.emplace_back();
    address.v4 = {};
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(static_cast<uint16_t>(port));
    address.v4.sin_addr.s_addr = host;
  }
  return ports;
}

std::vector<Address> listening_ports(pid_t pid) { return sockets_in(kListens, pid); }

// Connects, and says `opening`, as far as it is listened to. Not open: refused.
Socket stranger_at(const Address& port, const std::string& opening) {
  Socket stranger(socket(port.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(stranger.fd(), &port.any, port.size()) != 0) return {};
  if (!opening.empty()) stranger.try_send(opening.data(), opening.size());
  return stranger;
}

// A process of strangers: to UCX's ports and everybody else's.
class StrangersProcess {
 public:
  explicit StrangersProcess(const std::function<int(pid_t ranks)>& body) {
    const pid_t ranks = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      _exit(body(ranks));
    }
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  int status() const {
    int status = -1;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

// Two transports of this thread, which it connects.
struct Two {
  Transport first{0, "lo"};
  Transport second{1, "lo"};

  void connect() {
    const std::vector<std::string> addresses = {first.address(), second.address()};
    connections = {first.connect(addresses), second.connect(addresses)};
  }
  void admit() {
    for (Transport* each : {&first, &second})
      while (each->admit(connections) >= 0) std::this_thread::yield();
  }
  int send_one() {
    int sent = 42, received = 0;
    Request receiving = second.receive(7, ~uint64_t{0}, &received, sizeof(received));
    Request sending = first.send(1, 7, &sent, sizeof(sent), false);
    while (!receiving.test() || !sending.over()) first.progress(), second.progress();
    return received;
  }
  std::vector<std::string> connections;
};

class ForeignPeers : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Openings, ForeignPeers, ::testing::Range<size_t>(0, kOpenings.size()));

TEST_P(ForeignPeers, AreNotReadFromAndLoseTheirConnection) {
  Two ranks;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const StrangersProcess process([&](pid_t pid) {
    std::vector<Socket> strangers;
    for (const Address& port : listening_ports(pid))
      strangers.push_back(stranger_at(port, kOpenings[GetParam()]));
    if (write(ready[1], "r", 1) != 1 || strangers.size() != 2) return 2;
    for (const Socket& stranger : strangers) {
      char byte;
      if (!stranger.open() || recv(stranger.fd(), &byte, 1, 0) > 0) return 1;
    }
    return 0;
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ranks.connect();
  ranks.admit();
  EXPECT_EQ(ranks.send_one(), 42);
  EXPECT_EQ(process.status(), 0);
}

TEST(Ports, AreClosedWhenTheRanksAreConnected) {
  Two ranks;
  const std::vector<Address> ports = listening_ports(getpid());
  EXPECT_FALSE(ports.empty());
  ranks.connect();
  ranks.admit();
  EXPECT_TRUE(listening_ports(getpid()).empty());
  for (const Address& port : ports) EXPECT_FALSE(stranger_at(port, "").open());
  EXPECT_EQ(ranks.send_one(), 42);
}

struct Waiting {
  Socket listener = Socket::listen(local_address("lo"));
  Socket caller = stranger_at(listener.bound(), "");
  Socket accepted;

  ucs_status_t accept() {
    Address from;
    socklen_t size = sizeof(from.v6);
    int fd = -1;
    const ucs_status_t status = ucs_socket_accept(listener.fd(), &from.any, &size, &fd);
    accepted = Socket(fd);
    return status;
  }
};

TEST(Ports, LetNobodyInWhileAWorkerIsMade) {
  Waiting waiting;
  const TcpPorts ports([&] {
    EXPECT_EQ(waiting.accept(), UCS_ERR_NO_PROGRESS);
    return std::string();
  });
  EXPECT_EQ(waiting.accept(), UCS_OK);
  EXPECT_TRUE(waiting.accepted.open());
}

TEST(Ports, StayWhereThereAreNoMoreDescriptors) {
  Waiting waiting;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_EQ(waiting.accept(), UCS_ERR_NO_PROGRESS);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(waiting.accept(), UCS_OK);
  EXPECT_TRUE(waiting.accepted.open());
}

// By the interface where they met go the two ends of what they watch each other by, and no data.
TEST(Ports, AreOfTheLoopbackInterfaceWhereAllRanksAreOnThisMachine) {
  unsetenv("NCCL_SOCKET_IFNAME");
  const Address met = local_address("");
  if (interface_of(met) == loopback_interface()) GTEST_SKIP() << "no other interface";
  const hostnccl_test::Clique clique(2);
  hostnccl_test::on_threads(
      2, [&](int rank) { hostnccl_test::expect_sum(clique[rank], 1 + rank, 3); });
  const std::vector<Address> connected = sockets_in(kEstablished, getpid());
  EXPECT_EQ(
      2, std::ranges::count_if(connected, [&](const Address& end) { return end.same_host(met); }));
}

// Whoever comes while they meet, and at what stays open.
TEST(Ranks, GoOnWhateverStrangersSay) {
  const StrangersProcess attack([](pid_t ranks) {
    for (size_t i = 0;; ++i)
      for (const Address& port : listening_ports(ranks)) stranger_at(port, kOpenings[i % 4]);
    return 0;
  });
  for (int round = 0; round < 6; ++round) {
    const hostnccl_test::Clique clique(3);
    for (int call = 0; call < 5; ++call)
      hostnccl_test::on_threads(
          3, [&](int rank) { hostnccl_test::expect_sum(clique[rank], 1 + rank, 6); });
  }
  attack.kill();
  attack.status();
}

// UCX ends the process where its peer breaks its protocol, and where it loses count itself.
TEST(UcxFailure, IsThrownInPlaceOfAnAbort) {
  const UcxFailuresThrow scope;
  {
    Transport rank(0, "lo");
    const std::vector<Address> ports = listening_ports(getpid());
    ASSERT_EQ(ports.size(), 1u);
    const Socket stranger = stranger_at(ports[0], ucx_magic_and_header());  // nobody ends it
    try {
      const auto limit = Clock::now() + std::chrono::seconds(20);
      while (Clock::now() < limit) rank.progress();
      FAIL() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ncclInternalError);
      EXPECT_TRUE(failure.text().starts_with("UCX failed in uct_tcp_ep_progress_am_rx (tcp_ep.c:"))
          << failure.text();
    }
    EXPECT_TRUE(ucx_is_lost());
  }
  // Others, on other threads, are as they were, and new ones can be made.
  std::thread([] {
    EXPECT_FALSE(ucx_is_lost());
    Two ranks;
    ranks.connect();
    ranks.admit();
    EXPECT_EQ(ranks.send_one(), 42);
  }).join();
}

// ---- More of them than there are descriptors ----

// In a process of few descriptors: makes an id, hands out where it is met at, and when `go` can be
// read, the communicator.
int ranks_of_few_descriptors(int out, int go) {
  const rlimit few{100, 100};
  setrlimit(RLIMIT_NOFILE, &few);
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return 2;
  const Address at = from_unique_id(id).address;
  char byte;
  if (write(out, &at, sizeof(at)) != sizeof(at) || read(go, &byte, 1) != 1) return 3;
  std::atomic<int> right{0};
  hostnccl_test::on_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    int value = 1 + rank;
    if (ncclCommInitRank(&comm, 2, id, rank) == ncclSuccess &&
        ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr) == ncclSuccess &&
        value == 3)
      ++right;
    else
      std::fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(nullptr));
    ncclCommAbort(comm);
  });
  return right == 2 ? 0 : 1;
}

TEST(Ranks, MeetThoughSilentStrangersOutnumberTheirDescriptors) {
  int address_pipe[2], go_pipe[2];
  ASSERT_EQ(pipe(address_pipe), 0);
  ASSERT_EQ(pipe(go_pipe), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    _exit(ranks_of_few_descriptors(address_pipe[1], go_pipe[0]));
  }
  Address at;
  ASSERT_EQ(read(address_pipe[0], &at, sizeof(at)), static_cast<ssize_t>(sizeof(at)));
  std::vector<Socket> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(stranger_at(at, ""));
  ASSERT_EQ(write(go_pipe[1], "g", 1), 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hostnccl
