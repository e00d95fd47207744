// A flag that other threads raise and that poll and epoll can wait for.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "failure.h"

namespace hostnccl {

class Flag {
 public:
  Flag() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) fail_system("eventfd");
  }
  ~Flag() { close(fd_); }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

  // Only the first raise since the last lower costs a system call.
  void raise() {
    if (raised_.exchange(true)) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
  }

  // Called by the one thread that waits, which must look for its news afterwards, not before: a
  // raise between the two steps writes nothing.
  void lower() {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof(count));
    raised_ = false;
  }

  bool raised() const { return raised_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  std::atomic<bool> raised_{false};
};

}  // namespace hostnccl
