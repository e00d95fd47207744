// Ranks as threads of this process.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include <functional>
#include <vector>

namespace terse::test {

// Makes a clique of `n` ranks, runs body(rank, communicator) on a thread for each, and destroys it,
// with terse's state of it. The first exception of a thread is rethrown.
void run_ranks(int n, const std::function<void(int rank, ncclComm_t comm)>& body);

// Memory of `bytes` bytes at an address that is `offset` past alignment, between guards that must
// not change.
class Guarded {
 public:
  Guarded(size_t bytes, size_t offset);
  char* data() { return memory_.data() + begin_; }
  const char* data() const { return memory_.data() + begin_; }
  size_t size() const { return bytes_; }
  bool intact() const;

 private:
  static constexpr size_t kGuard = 128;
  size_t bytes_, begin_;
  std::vector<char> memory_;
};

}  // namespace terse::test
