// Something that finishes once, on one thread, and that others wait for or are told about.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "failure.h"

namespace hostnccl {

class Completion {
 public:
  using Listener = std::function<void(const Outcome&)>;
  using Listeners = std::list<Listener>;

  // Later calls are ignored. Runs the listeners on the caller's thread.
  void finish(Outcome outcome) {
    mark(std::move(outcome));
    notify();
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
  void notify() {
    Listeners listeners;
    {
      std::lock_guard lock(mutex_);
      listeners.swap(listeners_);
    }
    for (const Listener& listener : listeners) listener(outcome_);
  }

  // Runs the listener now if already finished.
  void then(Listener listener) {
    Listeners one;
    one.push_back(std::move(listener));
    then(std::move(one));
  }

  // Adds listeners that are in a list already: takes no memory.
  void then(Listeners listeners) {
    {
      std::lock_guard lock(mutex_);
      if (!finished_) return listeners_.splice(listeners_.end(), listeners);
    }
    for (const Listener& listener : listeners) listener(outcome_);
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
  Listeners listeners_;
};

}  // namespace hostnccl
