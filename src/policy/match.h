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
  bool gpu = false;
  uint64_t tag = 0;  // of the call's own configuration, its userProfilerTag; 0: none

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

// On hosts, bytes of a shard from which on a codec mostly gains something.
constexpr size_t kUsualShard = 64 << 10;

// The same of the call's whole message. On GPUs links are faster, and a codec has launches: 8 MiB,
// or 32 KiB a rank, by `terse forecast` of AllReduce, AllGather and ReduceScatter in int8, fp32 and
// bf16, on 16 to 4096 GPUs, 4 and 8 to a node with 100 to 3200 Gbit/s. An estimate, not a
// measurement.
size_t default_min_bytes(const Facts& facts);

struct Match {
  Set collectives = 0;  // in a rule of a policy never empty
  Set dtypes = 0, ops = 0;
  Range bytes, shard, ranks, nodes, tag;
  bool usual = false;  // large enough to gain by it, as a rule
  std::string name;    // a pattern with * and ?; empty: any, also none

  // The key of the first condition that does not hold; null when all hold, and the rule matches.
  const char* refusal(const Facts& facts) const;

  // Whether there is no call that `other` matches and this does not. May say no where it is so.
  bool covers(const Match& other) const;

  // Whether there may be a call that both match.
  bool meets(const Match& other) const;

  // Whether the message is smaller than what is asked for.
  bool is_too_small(const Facts& facts) const;

  bool operator==(const Match&) const = default;
};

// Whether `text` is one of those that `pattern` stands for: * is any text, ? any character.
bool glob(std::string_view pattern, std::string_view text);

}  // namespace terse
