#include "socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace hostnccl {
namespace {

constexpr size_t kMaxText = size_t{1} << 28;  // a longer frame is not ours

Socket new_socket(const Address& address) {
  Socket socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) fail_system("socket");
  return socket;
}

void disable_delay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool is_over(const Limit& limit) {
  return Clock::now() >= limit.deadline || (limit.stop != nullptr && limit.stop->raised());
}

void wait_to_try_again() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// TCP connects a socket to itself where nobody listens and the port that it is given happens to be
// the one that it calls.
bool is_connected_to_itself(int fd) {
  Address own, other;
  socklen_t own_size = sizeof(own.v6), other_size = sizeof(other.v6);
  return getsockname(fd, &own.any, &own_size) == 0 &&
         getpeername(fd, &other.any, &other_size) == 0 && own_size == other_size &&
         std::memcmp(&own.any, &other.any, own_size) == 0;
}

// Closes at once: a connection that ends in good order would keep the port for a while.
void reset(Socket& socket) {
  const linger at_once{1, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  socket.close();
}

template <size_t size>
bool is_one_of(const int (&errors)[size], int error) {
  return std::ranges::find(errors, error) != std::end(errors);
}

// Errors of one connection that was about to be accepted: others may follow.
constexpr int kOfACaller[] = {ECONNABORTED, EPROTO,     ENOPROTOOPT, ENETDOWN, EHOSTDOWN, ENONET,
                              EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, EPERM,    ETIMEDOUT};

// Errors of the process or the machine: a caller is let in when there is room again.
constexpr int kOfNoRoom[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};

struct FrameHeader {
  uint32_t code;
  uint32_t bytes;
};

}  // namespace

std::string Address::text() const {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(&any, size(), host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return any.sa_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                   : fmt::format("{}:{}", host, port);
}

bool Address::same_host(const Address& other) const {
  if (any.sa_family != other.any.sa_family) return false;
  return any.sa_family == AF_INET6
             ? std::memcmp(&v6.sin6_addr, &other.v6.sin6_addr, sizeof(v6.sin6_addr)) == 0
             : v4.sin_addr.s_addr == other.v4.sin_addr.s_addr;
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::close() {
  if (fd_ >= 0) ::close(release());
}

Socket Socket::listen(const Address& address, const Limit& limit) {
  for (;;) {
    Socket socket = new_socket(address);
    const int one = 1;
    setsockopt(socket.fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(socket.fd_, &address.any, address.size()) == 0 &&
        ::listen(socket.fd_, SOMAXCONN) == 0) {
      return socket;
    }
    if (const int error = errno; error != EADDRINUSE || is_over(limit)) {
      errno = error;
      fail_system("listen on " + address.text());
    }
    wait_to_try_again();
  }
}

Address Socket::bound() const {
  Address address;
  socklen_t size = sizeof(address.v6);
  if (getsockname(fd_, &address.any, &size) != 0) fail_system("getsockname");
  return address;
}

Socket Socket::connect(const Address& address, const Limit& limit) {
  for (;;) {
    Socket socket = new_socket(address);
    int error = ::connect(socket.fd_, &address.any, address.size()) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      await(socket.fd_, POLLOUT, limit);
      socklen_t size = sizeof(error);
      getsockopt(socket.fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0 && is_connected_to_itself(socket.fd_)) {
      reset(socket);
      error = ECONNREFUSED;
    }
    if (error == 0) {
      disable_delay(socket.fd_);
      return socket;
    }
    if (is_over(limit)) {
      errno = error;
      fail_system("connect to " + address.text());
    }
    wait_to_try_again();
  }
}

Socket Socket::try_accept(int* no_room) {
  Socket socket(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.open()) {
    disable_delay(socket.fd_);
  } else if (is_one_of(kOfNoRoom, errno)) {
    if (no_room != nullptr) *no_room = errno;
  } else if (!would_block() && !is_one_of(kOfACaller, errno)) {
    fail_system("accept");
  }
  return socket;
}

void Socket::send(const void* data, size_t bytes, const Limit& limit) {
  for (auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && !would_block()) fail_system("send");
    if (sent <= 0) {
      await(fd_, POLLOUT, limit);
    } else {
      at += sent;
      bytes -= static_cast<size_t>(sent);
    }
  }
}

void Socket::receive(void* data, size_t bytes, const Limit& limit) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = recv(fd_, at, bytes, 0);
    if (got == 0) fail(ncclRemoteError, "connection closed by the other side");
    if (got < 0 && !would_block()) fail_system("receive");
    if (got < 0) {
      await(fd_, POLLIN, limit);
    } else {
      at += got;
      bytes -= static_cast<size_t>(got);
    }
  }
}

bool Socket::has_ended() const {
  pollfd end{fd_, POLLRDHUP, 0};
  return poll(&end, 1, 0) > 0;
}

Socket::Received Socket::try_receive(void* data, size_t bytes) {
  const bool ended = has_ended();  // asked first: what comes before the end is seen below
  const ssize_t seen = recv(fd_, data, bytes, MSG_PEEK);
  if (seen == 0 || (seen < 0 && !would_block())) return Received::kEnd;
  if (seen < static_cast<ssize_t>(bytes)) return ended ? Received::kEnd : Received::kNothingYet;
  return recv(fd_, data, bytes, 0) == seen ? Received::kRecord : Received::kEnd;
}

void Socket::wake_by(size_t bytes) {
  const int count = static_cast<int>(bytes);
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &count, sizeof(count));
}

bool Socket::try_send(const void* data, size_t bytes) {
  const ssize_t sent = ::send(fd_, data, bytes, MSG_NOSIGNAL);
  return sent <= 0 || sent == static_cast<ssize_t>(bytes);
}

void Socket::send_frame(ncclResult_t code, const std::string& text, const Limit& limit) {
  const FrameHeader header{static_cast<uint32_t>(code), static_cast<uint32_t>(text.size())};
  send(&header, sizeof(header), limit);
  send(text.data(), text.size(), limit);
}

void Socket::send_text(const std::string& text, const Limit& limit) {
  send_frame(ncclSuccess, text, limit);
}

void Socket::send_failure(const Failure& failure, const Limit& limit) {
  send_frame(failure.code(), failure.text(), limit);
}

std::string Socket::receive_text(const Limit& limit) {
  FrameHeader header;
  receive(&header, sizeof(header), limit);
  if (header.code >= ncclNumResults || header.bytes > kMaxText) {
    fail(ncclRemoteError, "malformed bootstrap message");
  }
  std::string text(header.bytes, '\0');
  receive(text.data(), text.size(), limit);
  if (header.code != ncclSuccess) throw Failure(static_cast<ncclResult_t>(header.code), text);
  return text;
}

void await(int fd, short events, const Limit& limit) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit.deadline - Clock::now());
    if (left.count() <= 0) fail(ncclSystemError, "timed out");
    pollfd fds[2] = {{fd, events, 0}, {limit.stop != nullptr ? limit.stop->fd() : -1, POLLIN, 0}};
    const auto wait = static_cast<int>(std::min<int64_t>(left.count(), 60000));
    if (poll(fds, 2, wait) < 0 && errno != EINTR) fail_system("poll");
    if (fds[1].revents != 0) fail(ncclInternalError, "aborted");
    if (fds[0].revents != 0) return;
  }
}

// ---- Which interface ----

namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

Interfaces all_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail_system("getifaddrs");
  return {list, &freeifaddrs};
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// "eth,ib": these prefixes; "=eth0": this name; "^docker": all but these.
bool matches(std::string pattern, const std::string& name) {
  const bool exclude = starts_with(pattern, "^");
  if (exclude) pattern.erase(0, 1);
  const bool exact = starts_with(pattern, "=");
  if (exact) pattern.erase(0, 1);
  bool found = false;
  for (size_t at = 0; at <= pattern.size();) {
    const size_t end = std::min(pattern.find(',', at), pattern.size());
    const std::string item = pattern.substr(at, end - at);
    found |= !item.empty() && (exact ? name == item : starts_with(name, item));
    at = end + 1;
  }
  return found != exclude;
}

// Smaller is better; IPv4 before IPv6 on equal footing.
int unfitness(const ifaddrs& interface) {
  const bool loopback = (interface.ifa_flags & IFF_LOOPBACK) != 0;
  const bool docker = starts_with(interface.ifa_name, "docker");
  return (loopback ? 4 : 0) + (docker ? 2 : 0) + (interface.ifa_addr->sa_family == AF_INET6);
}

bool is_usable(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  if (interface.ifa_addr->sa_family == AF_INET) return true;
  if (interface.ifa_addr->sa_family != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

Address address_of(const ifaddrs& interface) {
  Address address;
  const bool v6 = interface.ifa_addr->sa_family == AF_INET6;
  std::memcpy(&address.any, interface.ifa_addr, v6 ? sizeof(address.v6) : sizeof(address.v4));
  return address;
}

// Returns the best usable interface that `fits` accepts, as `read` sees it; without one the default
// of the type that `read` returns.
template <class Fits, class Read>
auto best_interface(Fits&& fits, Read&& read) {
  const Interfaces interfaces = all_interfaces();
  const ifaddrs* best = nullptr;
  for (const ifaddrs* it = interfaces.get(); it != nullptr; it = it->ifa_next) {
    if (!is_usable(*it) || !fits(*it)) continue;
    if (best == nullptr || unfitness(*it) < unfitness(*best)) best = it;
  }
  return best != nullptr ? read(*best) : decltype(read(*best)){};
}

// Without the label of a further address ("eth0:1").
std::string interface_name(const ifaddrs& interface) {
  const std::string name = interface.ifa_name;
  return name.substr(0, name.find(':'));
}

}  // namespace

Address local_address(const std::string& pattern) {
  const Address address = best_interface(
      [&](const ifaddrs& each) { return pattern.empty() || matches(pattern, each.ifa_name); },
      &address_of);
  if (!address.valid()) {
    fail(ncclSystemError, "no network interface that is up matches '{}'", pattern);
  }
  return address;
}

std::string interface_of(const Address& address) {
  return best_interface([&](const ifaddrs& each) { return address_of(each).same_host(address); },
                        &interface_name);
}

std::string loopback_interface() {
  return best_interface([](const ifaddrs& each) { return (each.ifa_flags & IFF_LOOPBACK) != 0; },
                        &interface_name);
}

Address parse_address(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) {
    fail(ncclInvalidArgument, "'{}' is not host:port", host_and_port);
  }
  std::string host = host_and_port.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = host_and_port.substr(colon + 1);
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    fail(ncclInvalidArgument, "cannot resolve '{}': {}", host_and_port, gai_strerror(error));
  }
  Address address;
  std::memcpy(&address.any, found->ai_addr,
              std::min<size_t>(found->ai_addrlen, sizeof(sockaddr_in6)));
  freeaddrinfo(found);
  return address;
}

}  // namespace hostnccl
