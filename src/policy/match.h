// Which calls a rule is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "policy/names.h"

namespace terse {

// A call as rules see it: what all ranks know of it.
struct Facts {
  plan::Collective collective;
  size_t bytes = 0;  // of the whole message
  ncclDataType_t dtype = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // of collectives that reduce
  int ranks = 1;
  int nodes = 0;          // hosts that the ranks are on; 0: not known yet
  std::string_view name;  // of the communicator, its commName; empty: none

  // Of what NCCL's own count counts: a rank's shard, where the message has some.
  size_t shard_bytes() const { return bytes / plan::shards(collective, ranks); }
};

// From first to last, both included.
struct Range {
  uint64_t first = 0, last = UINT64_MAX;

  bool contains(uint64_t value) const { return first <= value && value <= last; }
  bool contains(const Range& other) const { return contains(other.first) && contains(other.last); }
  bool everything() const { return contains(Range{}); }
  bool meets(const Range& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Range&) const = default;
};

struct Match {
  Set collectives = 0;  // in a rule of a policy never empty
  Set dtypes = 0, ops = 0;
  Range bytes, shard, ranks, nodes;
  std::string name;  // a pattern with * and ?; empty: any, also none

  // The key of the first condition that does not hold; null when all hold, and the rule matches.
  const char* refusal(const Facts& facts) const;

  // Whether there is no call that `other` matches and this does not. May say no where it is so.
  bool covers(const Match& other) const;

  // Whether there may be a call that both match.
  bool meets(const Match& other) const;

  bool operator==(const Match&) const = default;
};

// Whether `text` is one of those that `pattern` stands for: * is any text, ? any character.
bool glob(std::string_view pattern, std::string_view text);

}  // namespace terse
