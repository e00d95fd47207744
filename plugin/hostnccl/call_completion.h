// Something that finishes once, on one thread, and that others wait for or are told about.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "failure.h"

namespace hostnccl {

class Completion {
 public:
  using Listener = std::function<void(const Outcome&)>;

  // Later calls are ignored. Runs the listeners on the caller's thread.
  void finish(Outcome outcome) {
    mark(std::move(outcome));
    tell();
  }

  // finish in two steps, for callers that hold a lock: it has finished after the first; the second,
  // without the lock, runs the listeners.
  void mark(Outcome outcome) {
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      finished_ = true;
      time_ = std::chrono::steady_clock::now();
      outcome_ = std::move(outcome);
    }
    changed_.notify_all();
  }
  void tell() {
    std::vector<Listener> listeners;
    {
      std::lock_guard lock(mutex_);
      listeners.swap(listeners_);
    }
    for (const Listener& listener : listeners) listener(outcome_);
  }

  // Runs the listener now if already finished.
  void then(Listener listener) {
    {
      std::lock_guard lock(mutex_);
      if (!finished_) {
        listeners_.push_back(std::move(listener));
        return;
      }
    }
    listener(outcome_);
  }

  const Outcome& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
    return outcome_;
  }

  bool finished() const {
    std::lock_guard lock(mutex_);
    return finished_;
  }

  // When it finished; empty: not yet.
  std::optional<std::chrono::steady_clock::time_point> time() const {
    std::lock_guard lock(mutex_);
    return finished_ ? std::optional(time_) : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::chrono::steady_clock::time_point time_;  // constant once finished, and so is the outcome
  Outcome outcome_;
  std::vector<Listener> listeners_;
};

}  // namespace hostnccl
