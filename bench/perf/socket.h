// TCP sockets that never wait longer than a deadline, with messages fit for a user.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

namespace terse::perf {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

struct TimeoutError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An owned descriptor. Every function throws std::runtime_error, or TimeoutError past the deadline.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int descriptor() const { return descriptor_; }
  void close();

  void send(const void* data, std::size_t bytes, Deadline deadline) const;
  void receive(void* data, std::size_t bytes, Deadline deadline) const;

 private:
  int descriptor_ = -1;
};

// Listens on all addresses of this host; port 0 takes a free one. *bound = the port.
Socket listen(int port, int* bound);

// The next connection.
Socket accept(const Socket& listener, Deadline deadline);

// One attempt; nothing when nobody listens there yet.
std::optional<Socket> try_connect(const std::string& address, int port, Deadline deadline);

}  // namespace terse::perf
