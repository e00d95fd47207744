#include "plan/cost.h"

#include <algorithm>
#include <span>

#include "plan/chunks.h"
#include "plan/grid.h"
#include "plan/rooted_grid.h"

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
  Shards(const Shape& s, size_t owners) : Shards(s, owners, s.packing.quantum) {}
  Shards(const Shape& s, size_t owners, size_t quantum)
      : s_(s), length_(Chunks::round_up((s.count + owners - 1) / owners, quantum)) {}

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

// In two levels, of blocks of either format.
Shards in_two_levels(const Shape& s, size_t owners) {
  return {s, owners, std::max(s.packing.quantum, s.within.packing.quantum)};
}

// In two levels: what a neighbour gets of the ranks at a place, in one message if packed: their
// shards side by side, each where it can be accessed.
size_t row(const Shape& s, size_t shards, size_t shard, size_t last, Format format) {
  const size_t one = bytes(s, format, shard);
  return (shards - 1) * (format == Format::kRaw ? one : Chunks::round_up(one, Chunks::kAlignment)) +
         bytes(s, format, last);
}

// The same of a message in shards, for their owners. The last ones may be short or empty.
size_t row(const Shape& s, const Shards& shards, std::span<const size_t> owners, Format format) {
  const auto count = [&](size_t owner) { return shards.count(owner); };
  const size_t length = std::ranges::find(owners, size_t{0}, count) - owners.begin();
  return length == 0 ? 0 : row(s, length, count(0), count(owners[length - 1]), format);
}

// A message in shards, to ranks in two levels.
class Rows {
 public:
  explicit Rows(const Shape& s)
      : s_(s), shards_(in_two_levels(s, static_cast<size_t>(s.ranks))), grid_(s.topology) {}

  // Of the ranks at a place.
  size_t row(size_t place, Format format) const {
    return plan::cost::row(s_, shards_, grid_.at_place(place), format);
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

// On a shared grid.
size_t codes(const Shape& s, size_t count) { return s.packing.code_bytes(count); }
size_t params(const Shape& s, size_t count) { return s.packing.param_bytes(count); }
size_t agreement(const Shape& s, size_t params) {
  return raw_bytes(Collective::kAllReduce, params, s.position());
}

// Two native collectives, the second one of codes.
Cost summed(const Shape& s, Collective collective, size_t shards) {
  return {2, agreement(s, shards * params(s, s.count)) +
                 raw_bytes(collective, codes(s, s.count), s.position())};
}

// Of a message in shards: what goes to their owners, after the agreement.
size_t to_owners(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  size_t sent = 0, all_params = 0;
  for (size_t p = 0; p < static_cast<size_t>(s.ranks); ++p) {
    all_params += params(s, shards.count(p));
    if (p != static_cast<size_t>(s.rank)) sent += codes(s, shards.count(p));
  }
  return sent + agreement(s, all_params);
}
size_t own_codes(const Shape& s) {
  return codes(s, Shards(s, static_cast<size_t>(s.ranks)).count(static_cast<size_t>(s.rank)));
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

Cost hierarchical_broadcast(const Shape& s) {
  const RootedGrid grid(s.topology, s.root);
  const Shards shards = in_two_levels(s, grid.shards().size());
  const auto row_of = [&](size_t place) {
    return row(s, shards, grid.row(place), Format::kPacked);
  };
  const size_t node = grid.node(s.rank), place = grid.place(s.rank);
  if (node != 0)
    return {4, (grid.per_row - 1) * shards.bytes(grid.shard(node, place)) +
                   neighbours(s) * row_of(place)};
  size_t sent = (neighbours(s) - (is_root(s) ? 0 : 1)) * row_of(place);
  for (const size_t shard : grid.row(place)) sent += shards.bytes(shard);
  for (size_t p = 1; p < grid.places && is_root(s); ++p) sent += row_of(p);
  return {4, sent};
}

Cost summed_all_reduce(const Shape& s) { return summed(s, Collective::kAllReduce, 1); }

Cost summed_reduce_scatter(const Shape& s) {
  return summed(s, Collective::kReduceScatter, static_cast<size_t>(s.ranks));
}

Cost summed_reduce(const Shape& s) { return summed(s, Collective::kReduce, 1); }

Cost merged_all_reduce(const Shape& s) { return {3, to_owners(s) + others(s) * own_codes(s)}; }

Cost merged_reduce_scatter(const Shape& s) {
  return {2, agreement(s, static_cast<size_t>(s.ranks) * params(s, s.count)) +
                 others(s) * codes(s, s.count)};
}

Cost merged_reduce(const Shape& s) { return {3, to_owners(s) + (is_root(s) ? 0 : own_codes(s))}; }

Cost message(const Shape& s) { return {1, packed(s, s.count)}; }

Cost nothing(const Shape&) { return {1, 0}; }

}  // namespace terse::plan::cost
