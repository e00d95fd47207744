// Memory for the exact result of a call that also runs natively (TERSE_VERIFY): as much as the
// largest call took.
#pragma once

#include <atomic>

#include "engine/comm/stream_set.h"

namespace terse {

class ExactMemory {
 public:
  explicit ExactMemory(Backend& backend) : backend_(backend) {}
  ~ExactMemory() { backend_.release(memory_); }
  ExactMemory(const ExactMemory&) = delete;
  ExactMemory& operator=(const ExactMemory&) = delete;

  // Returns memory of at least `bytes`. Waits for the stream set if it must grow.
  void* reserve(size_t bytes, StreamSet& track);

  // Bytes held, from any thread, for the report.
  size_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  void* memory_ = nullptr;
  std::atomic<size_t> bytes_{0};
};

}  // namespace terse
