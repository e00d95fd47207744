// TCP sockets of the bootstrap: non-blocking underneath, every wait bounded by a Limit.
#ifndef HOSTNCCL_SOCKET_H_
#define HOSTNCCL_SOCKET_H_

#include <netinet/in.h>

#include <chrono>
#include <string>

#include "failure.h"
#include "flag.h"

namespace hostnccl {

using Clock = std::chrono::steady_clock;

// What bounds a wait: a point in time, and a flag that ends it early.
struct Limit {
  Clock::time_point deadline;
  const Flag* stop = nullptr;
};

// An IPv4 or IPv6 address with port. Plain bytes: it travels inside ncclUniqueId.
struct Address {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  Address() : v6{} {}
  bool valid() const { return any.sa_family == AF_INET || any.sa_family == AF_INET6; }
  socklen_t size() const { return any.sa_family == AF_INET6 ? sizeof(v6) : sizeof(v4); }
  std::string Text() const;
};

// The address (port 0) of the interface that `pattern`, in the syntax of NCCL_SOCKET_IFNAME,
// chooses; with no pattern the first one that is up and not a loopback, else the loopback.
Address LocalAddress(const std::string& pattern);

Address ParseAddress(const std::string& host_and_port);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  static Socket Listen(const Address& address);
  // Tries again for as long as the limit allows: the other side may not listen yet.
  static Socket Connect(const Address& address, const Limit& limit);
  Socket TryAccept();  // not open when nobody waits

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void Close();
  Address Bound() const;

  void Send(const void* data, size_t bytes, const Limit& limit);
  void Receive(void* data, size_t bytes, const Limit& limit);

  // Fixed-size records, without waiting. TryReceive takes a record only as a whole.
  enum class Received { kRecord, kNothingYet, kEnd };
  Received TryReceive(void* data, size_t bytes);
  bool TrySend(const void* data, size_t bytes);

  // A framed answer: a text, or a failure that Receive throws at the other end.
  void SendText(const std::string& text, const Limit& limit);
  void SendFailure(const Failure& failure, const Limit& limit);
  std::string ReceiveText(const Limit& limit);

 private:
  int Release();
  void SendFrame(ncclResult_t code, const std::string& text, const Limit& limit);
  int fd_ = -1;
};

// Waits until fd is ready for `events` (poll's). Throws when the limit is reached.
void Await(int fd, short events, const Limit& limit);

}  // namespace hostnccl

#endif  // HOSTNCCL_SOCKET_H_
