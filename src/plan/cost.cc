#include "plan/cost.h"

#include <algorithm>

#include "plan/chunks.h"

namespace terse::plan::cost {
namespace {

size_t others(const Shape& s) { return static_cast<size_t>(s.ranks) - 1; }
bool is_root(const Shape& s) { return s.rank == s.root; }

size_t bytes(const Shape& s, Format format, size_t count) {
  return count == 0 ? 0 : s.bytes(format, count);
}
size_t packed(const Shape& s, size_t count) { return bytes(s, Format::kPacked, count); }

size_t nodes(const Shape& s) { return s.topology.size.size(); }
size_t neighbours(const Shape& s) { return static_cast<size_t>(s.topology.size.front()) - 1; }

// A message in shards of equal length, in whole blocks; the last ones may be short or empty.
class Shards {
 public:
  Shards(const Shape& s, size_t owners)
      : s_(s),
        length_(Chunks::round_up((s.count + owners - 1) / owners,
                                 std::max(s.packing.quantum, s.within.packing.quantum))) {}

  size_t bytes(size_t owner, Format format = Format::kPacked) const {
    const size_t first = std::min(owner * length_, s_.count);
    return plan::cost::bytes(s_, format, std::min(length_, s_.count - first));
  }
  size_t all_bytes() const {
    return s_.count / length_ * packed(s_, length_) + packed(s_, s_.count % length_);
  }

 private:
  const Shape& s_;
  const size_t length_;
};

// In two levels: the shards of the ranks at this one's place; and what it sends until each shard is
// summed.
size_t of_place(const Shape& s, const Shards& shards) {
  size_t bytes = 0;
  for (size_t r = 0; r < static_cast<size_t>(s.ranks); ++r)
    if (s.topology.place[r] == s.topology.place[s.rank]) bytes += shards.bytes(r);
  return bytes;
}

size_t scattered(const Shape& s, const Shards& shards) {
  size_t bytes = of_place(s, shards) - shards.bytes(static_cast<size_t>(s.rank));
  for (size_t r = 0; r < static_cast<size_t>(s.ranks); ++r)
    if (s.topology.place[r] != s.topology.place[s.rank]) bytes += shards.bytes(r, s.within.format);
  return bytes;
}

}  // namespace

Cost to_each_other(const Shape& s) { return {1, others(s) * packed(s, s.count)}; }

Cost to_root(const Shape& s) { return {1, is_root(s) ? 0 : packed(s, s.count)}; }

Cost from_root(const Shape& s) { return {1, is_root(s) ? others(s) * packed(s, s.count) : 0}; }

Cost two_shots(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  const size_t own = shards.bytes(static_cast<size_t>(s.rank));
  return {2, shards.all_bytes() - own + others(s) * own};
}

Cost two_shots_to_root(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  const size_t own = shards.bytes(static_cast<size_t>(s.rank));
  return {2, shards.all_bytes() - (is_root(s) ? own : 0)};
}

Cost shared_from_root(const Shape& s) {
  const Shards shards(s, others(s));
  if (is_root(s)) return {2, shards.all_bytes()};
  const auto own = static_cast<size_t>(s.rank - s.root - 1 + s.ranks) % s.ranks;
  return {2, (others(s) - 1) * shards.bytes(own)};
}

Cost hierarchical_all_reduce(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  return {4, scattered(s, shards) + neighbours(s) * of_place(s, shards) +
                 (nodes(s) - 1) * shards.bytes(static_cast<size_t>(s.rank))};
}

Cost hierarchical_reduce(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  const bool near = s.topology.node[s.rank] == s.topology.node[s.root];
  const size_t gathered = is_root(s) ? 0
                          : near     ? of_place(s, shards)
                                     : shards.bytes(static_cast<size_t>(s.rank));
  return {4, scattered(s, shards) + gathered};
}

Cost hierarchical_all_gather(const Shape& s) {
  return {2, (nodes(s) - 1 + neighbours(s) * nodes(s)) * packed(s, s.count)};
}

Cost hierarchical_reduce_scatter(const Shape& s) {
  return {2, neighbours(s) * nodes(s) * bytes(s, s.within.format, s.count) +
                 (nodes(s) - 1) * packed(s, s.count)};
}

Cost message(const Shape& s) { return {1, packed(s, s.count)}; }

Cost nothing(const Shape&) { return {1, 0}; }

}  // namespace terse::plan::cost
