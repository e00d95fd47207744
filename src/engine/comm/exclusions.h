// Elements of messages that stay exact on one communicator (terseCommExclude).
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "plan/chunks.h"
#include "plan/native_extras.h"

namespace terse {

class Exclusions {
 public:
  // Sets the ranges of messages that have `elements` in all; none: clears them.
  void set(size_t elements, std::vector<plan::Range> ranges) {
    kept_.erase(elements);
    if (ranges.empty()) return;
    Kept& kept = kept_[elements];
    for (const plan::Range& range : ranges) kept.elements += range.count;
    kept.ranges = std::move(ranges);
  }

  // Ranges of a call with `count` elements a shard, and the number of elements in them.
  std::span<const plan::Range> of(plan::Collective collective, size_t count, int ranks) const {
    return find(collective, count, ranks).ranges;
  }
  bool empty() const { return kept_.empty(); }
  size_t elements(plan::Collective collective, size_t count, int ranks) const {
    return find(collective, count, ranks).elements;
  }

 private:
  struct Kept {
    std::vector<plan::Range> ranges;
    size_t elements = 0;
  };

  const Kept& find(plan::Collective collective, size_t count, int ranks) const {
    static const Kept& nothing = *new Kept;  // lasts while the program exits
    if (!plan::may_keep_exact(collective)) return nothing;
    const auto known = kept_.find(count * plan::shards(collective, ranks));
    return known == kept_.end() ? nothing : known->second;
  }

  std::map<size_t, Kept> kept_;
};

}  // namespace terse
