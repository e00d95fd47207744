#include "plan/collective.h"

#include <iterator>

namespace terse::plan {
namespace {

constexpr Side kNobody{Who::kNobody, false};
constexpr Side kAll{Who::kAll, false}, kAllShards{Who::kAll, true};
constexpr Side kRoot{Who::kRoot, false}, kRootShards{Who::kRoot, true};

// By Collective.
constexpr Traits kTraits[] = {
    {"AllReduce", kAll, kAll, true, false},
    {"AllGather", kAll, kAllShards, false, false},
    {"ReduceScatter", kAllShards, kAll, true, false},
    {"AllToAll", kAllShards, kAllShards, false, false},
    {"Broadcast", kRoot, kAll, false, true},
    {"Reduce", kAll, kRoot, true, true},
    {"Gather", kAll, kRootShards, false, true},
    {"Scatter", kRootShards, kAll, false, true},
    {"Send", kAll, kNobody, false, true},
    {"Recv", kNobody, kAll, false, true},
};
static_assert(std::size(kTraits) == kCollectives);

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

// By Collective.
constexpr Raw kRaw[] = {ring_all_reduce, to_each_other, to_each_other, to_each_other,
                        chain_from_root, but_root,      but_root,      root_alone,
                        but_root,        nothing};
static_assert(std::size(kRaw) == kCollectives);

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
