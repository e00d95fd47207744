#include "socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace terse::perf {
namespace {

std::runtime_error system_error(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

// Waits until the descriptor is ready for `events`.
void await(int descriptor, short events, Deadline deadline, const char* what) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw TimeoutError(std::string(what) + ": timed out");
    pollfd entry = {descriptor, events, 0};
    const int wait = static_cast<int>(std::min<long long>(left.count(), 1 << 30));
    const int ready = poll(&entry, 1, wait);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw system_error(what);
  }
}

void set_no_delay(int descriptor) {
  const int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void Socket::send(const void* data, std::size_t bytes, Deadline deadline) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(descriptor_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      await(descriptor_, POLLOUT, deadline, "sending to another process");
    } else if (errno != EINTR) {
      throw system_error("sending to another process");
    }
  }
}

void Socket::receive(void* data, std::size_t bytes, Deadline deadline) const {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    await(descriptor_, POLLIN, deadline, "waiting for another process");
    const ssize_t got = recv(descriptor_, at, bytes, MSG_DONTWAIT);
    if (got == 0) throw std::runtime_error("another process has closed its connection");
    if (got > 0) {
      at += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (errno != EINTR && errno != EAGAIN) {
      throw system_error("waiting for another process");
    }
  }
}

Socket listen(int port, int* bound) {
  const int descriptor = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Both families where there is IPv6 at all, plain IPv4 elsewhere.
  Socket listener(descriptor >= 0 ? descriptor : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int zero = 0;
  const int one = 1;
  setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_storage address = {};
  socklen_t size = 0;
  if (descriptor >= 0) {
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_any;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof(*v6);
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(INADDR_ANY);
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof(*v4);
  }
  if (bind(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.descriptor(), SOMAXCONN) != 0) {
    throw system_error("rank 0 cannot listen on port " + std::to_string(port) +
                       " (choose another with MASTER_PORT)");
  }
  size = sizeof(address);
  getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  *bound =
      ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return listener;
}

Socket accept(const Socket& listener, Deadline deadline) {
  await(listener.descriptor(), POLLIN, deadline, "waiting for connections");
  Socket connection(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.descriptor() < 0) throw system_error("accepting a connection");
  set_no_delay(connection.descriptor());
  return connection;
}

std::optional<Socket> try_connect(const std::string& address, int port, Deadline deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_AGAIN) return std::nullopt;
  if (error != 0) {
    throw std::runtime_error("MASTER_ADDR " + address + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Socket candidate(
        socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, entry->ai_protocol));
    const int started = connect(candidate.descriptor(), entry->ai_addr, entry->ai_addrlen);
    if (started != 0 && errno == EINPROGRESS) {
      await(candidate.descriptor(), POLLOUT, deadline, "connecting to rank 0");
    } else if (started != 0) {
      continue;
    }
    int outcome = 0;
    socklen_t size = sizeof(outcome);
    getsockopt(candidate.descriptor(), SOL_SOCKET, SO_ERROR, &outcome, &size);
    if (outcome != 0) continue;
    set_no_delay(candidate.descriptor());
    return candidate;
  }
  return std::nullopt;
}

}  // namespace terse::perf
