// Calls that a rule matches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "policy/names.h"

namespace terse {

// Call as rules see it: what all ranks know of it.
struct Facts {
  plan::Collective collective;
  size_t bytes = 0;  // of the whole message
  ncclDataType_t dtype = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // if the collective reduces
  int ranks = 1;
  int nodes = 0;          // hosts of the ranks; 0: unknown
  std::string_view name;  // commName of the communicator; empty: none
  bool gpu = false;
  uint64_t tag = 0;  // userProfilerTag of the call's configuration; 0: none
  // Bytes of the whole message from which on a fused call gains; at least kMinFusedShard a shard.
  size_t fused_from = ~size_t{0};

  // Bytes of a rank's shard, or of a message without shards.
  size_t shard_bytes() const { return bytes / plan::shards(collective, ranks); }
};

// Range from first to last, both included.
struct Range {
  uint64_t first = 0, last = UINT64_MAX;

  bool contains(uint64_t value) const { return first <= value && value <= last; }
  bool contains(const Range& other) const { return contains(other.first) && contains(other.last); }
  bool everything() const { return contains(Range{}); }
  bool meets(const Range& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Range&) const = default;
};

// Bytes of a shard from which on a codec mostly gains on hosts.
constexpr size_t kUsualShard = 64 << 10;

// Min bytes of a shard of a fused call, whatever its profile predicts.
constexpr size_t kMinFusedShard = 4 << 10;

// Default min bytes of a call's whole message: from there on, or from facts.fused_from on, which is
// less. On GPUs links are faster, and a codec has launches:
// 8 MiB, or 32 KiB a rank, by `terse forecast` of AllReduce, AllGather and ReduceScatter in int8,
// fp32 and bf16, on 16 to 4096 GPUs, 4 and 8 to a node with 100 to 3200 Gbit/s. An estimate, not a
// measurement.
size_t default_min_bytes(const Facts& facts);
// The same of calls in steps.
size_t default_min_bytes_in_steps(const Facts& facts);

struct Match {
  Set collectives = 0;  // never empty in a policy's rule
  Set dtypes = 0, ops = 0;
  Range bytes, shard, ranks, nodes, tag;
  bool usual = false;  // requires default_min_bytes()
  std::string name;    // pattern with * and ?; empty: any name, and none

  // Key of the first condition that does not hold; null: the rule matches.
  const char* refusal(const Facts& facts) const;

  // Returns true if this matches all calls that `other` matches; may be false if it is so.
  bool covers(const Match& other) const;

  // Returns true if there may be a call that both match.
  bool meets(const Match& other) const;

  // Returns true if the message is smaller than the rule's min size.
  bool is_too_small(const Facts& facts) const;

  bool operator==(const Match&) const = default;
};

// Returns true if the pattern matches: * is any text, ? any character.
bool glob(std::string_view pattern, std::string_view text);

}  // namespace terse
