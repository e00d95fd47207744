#include "plan/cost.h"

#include <algorithm>
#include <span>
#include <vector>

#include "plan/chunks.h"
#include "plan/in_levels.h"
#include "plan/rooted_grid.h"
#include "plan/rooted_groups.h"

namespace terse::plan::cost {
namespace {

bool is_root(const Shape& s) { return s.rank == s.root; }

size_t bytes(const Shape& s, Format format, size_t count) {
  return count == 0 ? 0 : s.bytes(format, count);
}
size_t packed(const Shape& s, size_t count) { return bytes(s, Format::kPacked, count); }
size_t sum_packed(const Shape& s, size_t count) { return bytes(s, s.sum.format, count); }

size_t others(const Shape& s) { return static_cast<size_t>(s.ranks) - 1; }
Traffic to_root_of(const Shape& s, size_t bytes) {
  return is_root(s) ? Traffic{} : to_rank(s, s.root, bytes);
}

// Traffic of a native collective.
Traffic native(const Shape& s, Collective collective, size_t bytes) {
  return raw_traffic(collective, bytes, s.position(), s.topology);
}

// Traffic of as many bytes to each other member of a group.
Traffic to_members(const Shape& s, std::span<const size_t> ranks, size_t bytes) {
  Traffic sent;
  for (const size_t rank : ranks)
    if (rank != static_cast<size_t>(s.rank)) sent += to_rank(s, static_cast<int>(rank), bytes);
  return sent;
}

// Bytes of so many elements.
using BytesOf = size_t (*)(const Shape&, size_t count);

// Message in shards of equal length, in whole blocks; the last ones may be short or empty.
class Shards {
 public:
  Shards(const Shape& s, size_t owners, BytesOf bytes_of = packed)
      : Shards(s, owners, bytes_of, s.packing.quantum) {}
  Shards(const Shape& s, size_t owners, BytesOf bytes_of, size_t quantum)
      : s_(s),
        bytes_of_(bytes_of),
        length_(Chunks::round_up((s.count + owners - 1) / owners, quantum)),
        whole_(bytes_of(s, length_)) {}

  size_t count(size_t owner) const {
    return std::min(length_, s_.count - std::min(owner * length_, s_.count));
  }
  size_t bytes(size_t owner) const {
    const size_t n = count(owner);
    return n == length_ ? whole_ : bytes_of_(s_, n);
  }

 private:
  const Shape& s_;
  const BytesOf bytes_of_;
  const size_t length_, whole_;
};

// Traffic to the owners of shards.
Traffic to_owners(const Shape& s, const Shards& shards) {
  Traffic sent;
  for (int peer = 0; peer < s.ranks; ++peer)
    if (peer != s.rank) sent += to_rank(s, peer, shards.bytes(peer));
  return sent;
}

// Shards of sums that are quantized twice: to be summed, and as sums.
struct TwiceShards {
  explicit TwiceShards(const Shape& s)
      : once(s, s.ranks, packed, quantum(s)), sums(s, s.ranks, sum_packed, quantum(s)) {}

  static size_t quantum(const Shape& s) {
    return std::max(s.packing.quantum, s.sum.packing.quantum);
  }

  const Shards once, sums;
};

// Shards in levels.
Shards in_levels(const Shape& s, size_t owners, BytesOf bytes_of = packed) {
  return {s, owners, bytes_of, s.quantum()};
}

// Bytes of a row of shards, in one message if packed: side by side, each aligned.
size_t row(const Shape& s, size_t shards, size_t shard, size_t last, Format format) {
  const size_t one = bytes(s, format, shard);
  return (shards - 1) * (format == Format::kRaw ? one : Chunks::round_up(one, Chunks::kAlignment)) +
         bytes(s, format, last);
}

// row() of a message in shards. The last ones may be short or empty.
size_t row(const Shape& s, const Shards& shards, std::span<const size_t> numbers, Format format) {
  const auto count = [&](size_t number) { return shards.count(number); };
  const size_t length = std::ranges::find(numbers, size_t{0}, count) - numbers.begin();
  return length == 0 ? 0 : row(s, length, count(0), count(numbers[length - 1]), format);
}

// Message in shards, to ranks in levels.
class Rows {
 public:
  Rows(const Shape& s, const Grid& grid)
      : s_(s),
        shards_(in_levels(s, s.ranks)),
        grid_(grid),
        cut_(grid.levels() > 2 ? cut_of_rows(s) : RowCut{}) {}

  // Bytes of the shards that the ranks have that share the digits up to a level with one: in many
  // levels in one body of each part.
  size_t row(size_t rank, size_t level, Format format) const {
    const size_t first = grid_.first(rank, level), shards = grid_.block(level);
    if (grid_.levels() > 2) {
      const auto in_part = [&](size_t length) {
        const auto element = [&](size_t shard) { return std::min(shard * cut_.shard, length); };
        return bytes(s_, format, element(first + shards) - element(first));
      };
      const size_t others = cut_.parts - 1;
      return (others == 0 ? 0 : others * in_part(cut_.part)) +
             in_part(s_.count - others * cut_.part);
    }
    return plan::cost::row(s_, shards_, grid_.row(rank, level), format);
  }

  // Traffic of this rank until each shard is summed.
  Traffic scattered() const {
    Traffic sent;
    for (size_t level = 0; level < grid_.levels(); ++level)
      for (const size_t peer : grid_.group(self(), level))
        if (peer != self())
          sent +=
              to_rank(s_, static_cast<int>(peer), row(peer, level, scattered_format(s_, level)));
    return sent;
  }

  // Traffic to all peers of a level when sums are gathered there.
  Traffic gathered(size_t level) const {
    return to_members(s_, grid_.group(self(), level), row(self(), level, s_.sum.format));
  }

 private:
  size_t self() const { return static_cast<size_t>(s_.rank); }

  const Shape& s_;
  const Shards shards_;
  const Grid& grid_;
  const RowCut cut_;
};

// Levels on which a rank has peers.
size_t exchanges(const Grid& grid) { return grid.levels() - (grid.places() == 1 ? 1 : 0); }

Cost all_reduce(const Shape& s, const Grid& grid) {
  const Rows rows(s, grid);
  Traffic sent = rows.scattered();
  for (size_t level = 0; level < grid.levels(); ++level) sent += rows.gathered(level);
  return {2 * exchanges(grid), sent};
}

// What is on its way to the root changes its highest digit that differs first.
Cost reduce(const Shape& s, const Grid& grid) {
  const Rows rows(s, grid);
  const auto self = static_cast<size_t>(s.rank), root = static_cast<size_t>(s.root);
  Traffic sent = rows.scattered();
  for (size_t level = grid.levels(); level-- > 0;) {
    if (grid.digit(self, level) == grid.digit(root, level)) continue;
    const size_t peer = grid.peer(self, level, grid.digit(root, level));
    sent += to_rank(s, static_cast<int>(peer), rows.row(self, level, s.sum.format));
    break;
  }
  return {2 * exchanges(grid), sent};
}

// A shard of each rank, in rows.
template <class FormatOf>
Cost of_shards(const Shape& s, const Grid& grid, const FormatOf& format_of) {
  Traffic sent;
  for (size_t level = 0; level < grid.levels(); ++level)
    sent += to_members(s, grid.group(static_cast<size_t>(s.rank), level),
                       row(s, grid.block(level), s.count, s.count, format_of(level)));
  return {exchanges(grid), sent};
}

Cost all_gather(const Shape& s, const Grid& grid) {
  return of_shards(s, grid, [](size_t) { return Format::kPacked; });
}

Cost reduce_scatter(const Shape& s, const Grid& grid) {
  return of_shards(s, grid, [&](size_t level) { return scattered_format(s, level); });
}

// Bytes of codes on a shared grid.
size_t codes(const Shape& s, size_t count) { return s.packing.code_bytes(count); }
size_t params(const Shape& s, size_t count) { return s.packing.param_bytes(count); }
Traffic agreement(const Shape& s, size_t params) {
  return native(s, Collective::kAllReduce, params);
}

// Cost of two native collectives, the second one of codes.
Cost summed(const Shape& s, Collective collective, size_t shards) {
  return {2, agreement(s, shards * params(s, s.count)) + native(s, collective, codes(s, s.count))};
}

// Codes of shards to their owners, after the agreement.
Traffic merged_to_owners(const Shape& s, const Shards& shards) {
  size_t all_params = 0;
  for (int p = 0; p < s.ranks; ++p) all_params += params(s, shards.count(p));
  return to_owners(s, shards) + agreement(s, all_params);
}

}  // namespace

Traffic to_rank(const Shape& s, int peer, size_t bytes) {
  return traffic_to(peer, bytes, s.rank, s.topology);
}

Traffic to_others(const Shape& s, size_t bytes) {
  return raw_traffic(Collective::kAllToAll, bytes, s.position(), s.topology);
}

Cost to_each_other(const Shape& s) { return {1, to_others(s, packed(s, s.count))}; }

Cost to_root(const Shape& s) { return {1, to_root_of(s, packed(s, s.count))}; }

Cost from_root(const Shape& s) { return {1, is_root(s) ? to_each_other(s).sent : Traffic{}}; }

Cost two_shots(const Shape& s) {
  const TwiceShards shards(s);
  return {2, to_owners(s, shards.once) + to_others(s, shards.sums.bytes(s.rank))};
}

Cost two_shots_to_root(const Shape& s) {
  const TwiceShards shards(s);
  return {2, to_owners(s, shards.once) + to_root_of(s, shards.sums.bytes(s.rank))};
}

Cost shared_from_root(const Shape& s) {
  const Shards shards(s, others(s));
  const auto own_of = [&](int rank) {
    return shards.bytes((rank - s.root - 1 + s.ranks) % s.ranks);
  };
  Traffic sent;
  for (int peer = 0; peer < s.ranks; ++peer)
    if (peer != s.rank && peer != s.root)
      sent += to_rank(s, peer, own_of(is_root(s) ? peer : s.rank));
  return {2, sent};
}

Cost hierarchical_all_reduce(const Shape& s) { return all_reduce(s, Grid(s.topology)); }
Cost hierarchical_reduce(const Shape& s) { return reduce(s, Grid(s.topology)); }
Cost hierarchical_all_gather(const Shape& s) { return all_gather(s, Grid(s.topology)); }
Cost hierarchical_reduce_scatter(const Shape& s) { return reduce_scatter(s, Grid(s.topology)); }
Cost multilevel_all_reduce(const Shape& s) { return all_reduce(s, grid_of_groups(s.topology)); }
Cost multilevel_reduce(const Shape& s) { return reduce(s, grid_of_groups(s.topology)); }
Cost multilevel_all_gather(const Shape& s) { return all_gather(s, grid_of_groups(s.topology)); }
Cost multilevel_reduce_scatter(const Shape& s) {
  return reduce_scatter(s, grid_of_groups(s.topology));
}

Cost hierarchical_broadcast(const Shape& s) {
  const RootedGrid grid(s.topology, s.root);
  const Shards shards = in_levels(s, grid.shards().size());
  const auto row_of = [&](size_t place) {
    return row(s, shards, grid.row(place), Format::kPacked);
  };
  const size_t node = grid.node(s.rank), place = grid.place(s.rank);
  Traffic sent;
  const auto send = [&](size_t to_node, size_t to_place, size_t bytes) {
    const int peer = grid.rank(to_node, to_place);
    if (peer != s.rank && peer != s.root) sent += to_rank(s, peer, bytes);
  };
  for (size_t p = 0; p < grid.places; ++p) send(node, p, row_of(place));
  for (size_t p = 1; p < grid.places && is_root(s); ++p) send(0, p, row_of(p));
  for (size_t n = 1; n < grid.nodes; ++n)
    send(n, place, shards.bytes(grid.shard(node == 0 ? n : node, place)));
  return {4, sent};
}

Cost multilevel_broadcast(const Shape& s) {
  const RootedGroups groups(s.topology, s.root);
  const Shards shards = in_levels(s, groups.shards().size());
  const auto bytes_of = [&](std::span<const size_t> numbers) {
    return row(s, shards, numbers, Format::kPacked);
  };
  const auto self = static_cast<size_t>(s.rank);
  Traffic sent;
  const auto send = [&](size_t peer, std::span<const size_t> numbers) {
    sent += to_rank(s, static_cast<int>(peer), bytes_of(numbers));
  };
  for (size_t level = 1; level < groups.levels(); ++level)
    for (size_t d = 0; d < groups.radix(level); ++d) {
      const size_t peer = groups.peer(self, level, d);
      if (peer == self) continue;
      if (groups.is_on_the_way(self, level - 1)) send(peer, groups.shards_of(peer, level));
      if (groups.gives(self, level) && groups.lacks(peer, level))
        send(peer, groups.shards_of(self, level));
    }
  for (size_t p = 0; p < groups.places(); ++p) {
    const size_t peer = groups.peer(self, 0, p);
    if (peer == self) continue;
    if (static_cast<int>(peer) != s.root) send(peer, groups.row(groups.digit(self, 0)));
    if (is_root(s)) send(peer, groups.row(p));
  }
  return {2 * (groups.levels() - (groups.places() == 1 ? 1 : 0)), sent};
}

Cost summed_all_reduce(const Shape& s) { return summed(s, Collective::kAllReduce, 1); }

Cost summed_reduce_scatter(const Shape& s) {
  return summed(s, Collective::kReduceScatter, s.ranks);
}

Cost summed_reduce(const Shape& s) { return summed(s, Collective::kReduce, 1); }

Cost merged_all_reduce(const Shape& s) {
  const Shards shards(s, s.ranks, codes);
  return {3, merged_to_owners(s, shards) + to_others(s, shards.bytes(s.rank))};
}

Cost merged_reduce_scatter(const Shape& s) {
  return {2, agreement(s, s.ranks * params(s, s.count)) + to_others(s, codes(s, s.count))};
}

Cost merged_reduce(const Shape& s) {
  const Shards shards(s, s.ranks, codes);
  return {3, merged_to_owners(s, shards) + to_root_of(s, shards.bytes(s.rank))};
}

Cost message(const Shape& s) { return {1, to_rank(s, s.root, packed(s, s.count))}; }

Cost nothing(const Shape&) { return {1, {}}; }

}  // namespace terse::plan::cost
