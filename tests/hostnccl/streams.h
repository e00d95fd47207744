// Streams and events that clean up after themselves, and a way to hold a stream back.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "reference.h"

namespace hostnccl_test {

class Stream {
 public:
  Stream() { EXPECT_NCCL(hostncclStreamCreate(&stream_)); }
  ~Stream() { EXPECT_NCCL(hostncclStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { EXPECT_NCCL(hostncclEventCreate(&event_)); }
  ~Event() { EXPECT_NCCL(hostncclEventDestroy(event_)); }
  operator hostncclEvent_t() const { return event_; }

 private:
  hostncclEvent_t event_ = nullptr;
};

// Queues a function that waits until the gate is opened.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    EXPECT_NCCL(hostncclLaunchHostFunc(stream, &Gate::wait, &open_));
  }
  ~Gate() { open(); }
  void open() { open_ = true; }

 private:
  static void wait(void* open) {
    while (!*static_cast<std::atomic<bool>*>(open))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::atomic<bool> open_{false};
};

}  // namespace hostnccl_test
