// What the fake runtime counts of each thread.
#pragma once

#include <atomic>
#include <memory>

#include "fake.h"

namespace terse::fake {

// Traffic of what one thread has enqueued, which others run.
class TrafficCount {
 public:
  void add(const Traffic& more) {
    read_ += more.read;
    written_ += more.written;
  }
  Traffic get() const { return {read_, written_}; }

 private:
  std::atomic<uint64_t> read_{0}, written_{0};
};

// Count of the calling thread.
const std::shared_ptr<TrafficCount>& traffic_count();

}  // namespace terse::fake
