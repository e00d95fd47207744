// TCP sockets of the bootstrap: non-blocking underneath, every wait bounded by a Limit.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <string>

#include "failure.h"
#include "flag.h"

namespace hostnccl {

using Clock = std::chrono::steady_clock;

// Bound of a wait: a point in time, and a flag that ends it early.
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
  std::string text() const;
  bool same_host(const Address& other) const;
};

// The address (port 0) of the interface that `pattern`, in the syntax of NCCL_SOCKET_IFNAME,
// chooses; with no pattern the first one that is up and not a loopback, else the loopback.
Address local_address(const std::string& pattern);

// The name of the interface that has this address; of the first loopback interface that is up.
// Empty: there is none.
std::string interface_of(const Address& address);
std::string loopback_interface();

Address parse_address(const std::string& host_and_port);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  // Tries again for as long as the limit allows where the port is in use: its owner may be about to
  // go.
  static Socket listen(const Address& address, const Limit& limit = {});
  // Tries again for as long as the limit allows: the other side may not listen yet.
  static Socket connect(const Address& address, const Limit& limit);
  // Accepts a caller. The socket is not open if nobody waits, or if there is no room (`no_room` is
  // the errno); throws if nobody can ever be let in.
  Socket try_accept(int* no_room = nullptr);

  bool open() const { return fd_ >= 0; }
  bool has_ended() const;  // nothing comes any more, beyond what is there
  int fd() const { return fd_; }
  void close();
  Address bound() const;

  void send(const void* data, size_t bytes, const Limit& limit);
  void receive(void* data, size_t bytes, const Limit& limit);

  // Fixed-size records, without waiting. try_receive takes a record only as a whole; after less
  // than one nothing but the end comes.
  enum class Received { kRecord, kNothingYet, kEnd };
  Received try_receive(void* data, size_t bytes);
  // Who polls the socket is woken by that many bytes, not by less, or by the end.
  void wake_by(size_t bytes);
  // False: only a part was taken, and the stream is spoilt. A record may also be left out.
  bool try_send(const void* data, size_t bytes);

  // A framed answer: a text, or a failure that receive throws at the other end.
  void send_text(const std::string& text, const Limit& limit);
  void send_failure(const Failure& failure, const Limit& limit);
  std::string receive_text(const Limit& limit);

 private:
  int release();
  void send_frame(ncclResult_t code, const std::string& text, const Limit& limit);
  int fd_ = -1;
};

// Waits until fd is ready for `events` (poll's). Throws when the limit is reached.
void await(int fd, short events, const Limit& limit);

}  // namespace hostnccl
