// Plans by key, the most recently used ones of a communicator. Each rank keeps its own, as a plan
// is made again as it was; whoever runs a plan holds it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "plan/plan.h"

namespace terse {

using PlanPointer = std::shared_ptr<const plan::Plan>;

template <class Key>
class PlanCache {
 public:
  // Max plans kept for a program whose calls are all different.
  static constexpr size_t kMaxPlans = 1024;

  explicit PlanCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns null if it is not there.
  PlanPointer find(const Key& key) {
    const auto known = plans_.find(key);
    if (known == plans_.end()) return nullptr;
    known->second.used = ++uses_;
    return known->second.plan;
  }

  // Adds a plan for a new key. `key_bytes`: memory beside the key itself. Evicts the least recently
  // used plans for room; a plan larger than the room stays alone.
  void add(const Key& key, size_t key_bytes, PlanPointer plan) {
    const size_t bytes = plan::memory_bytes(*plan) + sizeof(Entry) + sizeof(Key) + key_bytes;
    while (!plans_.empty() && (plans_.size() >= kMaxPlans || bytes_ + bytes > max_bytes_))
      drop_oldest();
    plans_.emplace(key, Entry{std::move(plan), bytes, ++uses_});
    bytes_ += bytes;
  }

  void clear() {
    plans_.clear();
    bytes_ = 0;
  }

  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    PlanPointer plan;
    size_t bytes;
    uint64_t used;  // last use, in uses of the cache
  };

  void drop_oldest() {
    const auto oldest =
        std::ranges::min_element(plans_, {}, [](const auto& known) { return known.second.used; });
    bytes_ -= oldest->second.bytes;
    plans_.erase(oldest);
  }

  const size_t max_bytes_;
  size_t bytes_ = 0;
  uint64_t uses_ = 0;
  std::map<Key, Entry> plans_;
};

}  // namespace terse
