#include "plan/collective.h"

namespace terse::plan {
namespace {

constexpr Side kNobody{Who::kNobody, false};
constexpr Side kAll{Who::kAll, false}, kAllShards{Who::kAll, true};
constexpr Side kRoot{Who::kRoot, false}, kRootShards{Who::kRoot, true};

// Indexed by Collective.
constexpr Traits kTraits[] = {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, ...) \
  {#name, k##send, k##recv, k##form##Form.reduces, k##form##Form.rooted},
#include <nccl_collectives.inc>
};

using Raw = size_t (*)(size_t bytes, const Position& at);

size_t ring_all_reduce(size_t bytes, const Position& at) {
  return 2 * (bytes * (at.ranks - 1) / at.ranks);
}
size_t to_each_other(size_t bytes, const Position& at) { return bytes * (at.ranks - 1); }
// The last of the chain, before the root, passes nothing on.
size_t chain_from_root(size_t bytes, const Position& at) {
  return (at.rank + 1) % at.ranks == at.root ? 0 : bytes;
}
size_t but_root(size_t bytes, const Position& at) { return at.rank == at.root ? 0 : bytes; }
size_t root_alone(size_t bytes, const Position& at) {
  return at.rank == at.root ? to_each_other(bytes, at) : 0;
}
size_t nothing(size_t, const Position&) { return 0; }

// Indexed by Collective.
constexpr Raw kRaw[] = {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, rule, raw, off_node) raw,
#include <nccl_collectives.inc>
};

}  // namespace

const Traits& traits(Collective collective) { return kTraits[static_cast<size_t>(collective)]; }

size_t shards(Collective collective, int ranks) {
  const Traits& t = traits(collective);
  return t.send.per_rank || t.recv.per_rank ? static_cast<size_t>(ranks) : 1;
}

size_t extent(const Side& side, const Position& at) {
  if (side.who == Who::kNobody || (side.who == Who::kRoot && at.rank != at.root)) return 0;
  return side.per_rank ? static_cast<size_t>(at.ranks) : 1;
}

size_t raw_bytes(Collective collective, size_t bytes, const Position& at) {
  return kRaw[static_cast<size_t>(collective)](bytes, at);
}

}  // namespace terse::plan
