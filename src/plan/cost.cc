#include "plan/cost.h"

#include <algorithm>

#include "plan/chunks.h"
#include "plan/grid.h"

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

  size_t count(size_t owner) const {
    return std::min(length_, s_.count - std::min(owner * length_, s_.count));
  }
  size_t bytes(size_t owner) const { return packed(s_, count(owner)); }
  size_t all_bytes() const {
    return s_.count / length_ * packed(s_, length_) + packed(s_, s_.count % length_);
  }

 private:
  const Shape& s_;
  const size_t length_;
};

// In two levels: what a neighbour gets of the ranks at a place, in one message if packed: their
// shards side by side, each where it can be accessed.
size_t row(const Shape& s, size_t shards, size_t shard, size_t last, Format format) {
  if (shards == 0) return 0;
  const size_t one = bytes(s, format, shard);
  return (shards - 1) * (format == Format::kRaw ? one : Chunks::round_up(one, Chunks::kAlignment)) +
         bytes(s, format, last);
}

// A message in shards, to ranks in two levels.
class Rows {
 public:
  explicit Rows(const Shape& s)
      : s_(s), shards_(s, static_cast<size_t>(s.ranks)), grid_(s.topology) {}

  // Of the ranks at a place.
  size_t row(size_t place, Format format) const {
    size_t shards = 0, last = 0;
    for (const size_t owner : grid_.at_place(place)) {
      if (shards_.count(owner) == 0) break;
      last = shards_.count(owner);
      ++shards;
    }
    return plan::cost::row(s_, shards, shards_.count(0), last, format);
  }
  size_t own_row() const { return row(place(), Format::kPacked); }

  // What this rank sends until each shard is summed.
  size_t scattered() const {
    size_t bytes = 0;
    for (size_t p = 0; p < grid_.places; ++p)
      if (p != place()) bytes += row(p, s_.within.format);
    for (const size_t owner : grid_.at_place(place()))
      if (owner != self()) bytes += shards_.bytes(owner);
    return bytes;
  }

  size_t own() const { return shards_.bytes(self()); }

 private:
  size_t self() const { return static_cast<size_t>(s_.rank); }
  size_t place() const { return static_cast<size_t>(s_.topology.place[s_.rank]); }

  const Shape& s_;
  const Shards shards_;
  const Grid grid_;
};

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
  const Rows rows(s);
  return {4, rows.scattered() + neighbours(s) * rows.own_row() + (nodes(s) - 1) * rows.own()};
}

Cost hierarchical_reduce(const Shape& s) {
  const Rows rows(s);
  const bool near = s.topology.node[s.rank] == s.topology.node[s.root];
  const size_t gathered = is_root(s) ? 0 : near ? rows.own_row() : rows.own();
  return {4, rows.scattered() + gathered};
}

Cost hierarchical_all_gather(const Shape& s) {
  return {2, (nodes(s) - 1) * packed(s, s.count) +
                 neighbours(s) * row(s, nodes(s), s.count, s.count, Format::kPacked)};
}

Cost hierarchical_reduce_scatter(const Shape& s) {
  return {2, neighbours(s) * row(s, nodes(s), s.count, s.count, s.within.format) +
                 (nodes(s) - 1) * packed(s, s.count)};
}

// The shards are of the ranks of other nodes than the root's; nodes and places count from the
// root's.
Cost hierarchical_broadcast(const Shape& s) {
  const Topology& t = s.topology;
  const size_t per_row = nodes(s) - 1, places = neighbours(s) + 1;
  const size_t node = (nodes(s) + t.node[s.rank] - t.node[s.root]) % nodes(s);
  const size_t place = (places + t.place[s.rank] - t.place[s.root]) % places;
  const Shards shards(s, per_row * places);
  const auto row = [&](size_t at) {
    size_t length = 0, bytes = 0;
    for (; length < per_row && shards.count(at * per_row + length) != 0; ++length) {
      bytes = length * Chunks::round_up(shards.bytes(0), Chunks::kAlignment) +
              shards.bytes(at * per_row + length);
    }
    return bytes;
  };
  if (node != 0) {
    const size_t own = shards.bytes(place * per_row + node - 1);
    return {4, (per_row - 1) * own + neighbours(s) * row(place)};
  }
  size_t sent = (neighbours(s) - (is_root(s) ? 0 : 1)) * row(place);
  for (size_t m = 0; m < per_row; ++m) sent += shards.bytes(place * per_row + m);
  for (size_t p = 1; p < places && is_root(s); ++p) sent += row(p);
  return {4, sent};
}

Cost message(const Shape& s) { return {1, packed(s, s.count)}; }

Cost nothing(const Shape&) { return {1, 0}; }

}  // namespace terse::plan::cost
