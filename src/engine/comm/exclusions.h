// The elements of messages that stay exact on one communicator (terseCommExclude).
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "plan/beside.h"
#include "plan/chunks.h"

namespace terse {

class Exclusions {
 public:
  // Of messages that have `elements` in all; no ranges: none any more.
  void set(size_t elements, std::vector<plan::Range> ranges) {
    if (ranges.empty())
      ranges_.erase(elements);
    else
      ranges_[elements] = std::move(ranges);
  }

  // Of a call with `count` elements a shard.
  std::span<const plan::Range> of(plan::Collective collective, size_t count, int ranks) const {
    if (!plan::may_keep_exact(collective)) return {};
    const auto known = ranges_.find(count * plan::shards(collective, ranks));
    if (known == ranges_.end()) return {};
    return known->second;
  }

 private:
  std::map<size_t, std::vector<plan::Range>> ranges_;
};

}  // namespace terse
