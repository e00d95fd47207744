// How the ranks of a communicator find each other: by a store of torch's.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "communicator.h"
#include "work.h"

namespace torch_hostnccl {

// All `size` ranks call it with the same key, in any order and at any time within `timeout`.
// Throws c10::DistBackendError, which names those who did not come.
std::shared_ptr<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                   const std::string& name, Milliseconds timeout);

// One thread at a time makes the communicator of a key; those of others go on beside it, for the
// ranks that it waits for may come to them first.
class Turns {
 public:
  void begin(const std::string& key) {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return !taken_.count(key); });
    taken_.insert(key);
  }
  void end(const std::string& key) {
    std::lock_guard lock(mutex_);
    taken_.erase(key);
    over_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  std::set<std::string> taken_;
};

class Turn {
 public:
  Turn(Turns& turns, std::string key) : turns_(turns), key_(std::move(key)) { turns_.begin(key_); }
  ~Turn() { turns_.end(key_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
  const std::string key_;
};

}  // namespace torch_hostnccl
