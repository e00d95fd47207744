// Broadcast in two levels, where nodes have several ranks each. The message is cut into a shard for
// each rank of the other nodes. The root gives each of its neighbours the shards of the ranks at
// that place, and its node sends each shard to its rank; the other nodes share theirs among
// themselves, and each node's ranks what they have. So the root's node sends one packed message in
// all, by all of its ranks, and the other nodes less than one.
//
// What is packed is the same as in the others (broadcast.cc).
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <vector>

#include "plan/broadcast.h"
#include "plan/grid.h"
#include "plan/slots.h"

namespace terse::plan {
namespace {

// Nodes and places are counted from the root's, which are 0.
class InTwoLevels {
 public:
  explicit InTwoLevels(const Shape& s)
      : s_(s),
        grid_(s.topology),
        per_row_(grid_.nodes - 1),
        node_((grid_.nodes + s.topology.node[s.rank] - s.topology.node[s.root]) % grid_.nodes),
        place_((grid_.places + s.topology.place[s.rank] - s.topology.place[s.root]) % grid_.places),
        is_root_(s.rank == s.root),
        shards_(per_row_ * grid_.places),
        shard_(Chunks::round_up((s.count + shards_.size() - 1) / shards_.size(),
                                std::max(s.packing.quantum, s.within.packing.quantum))),
        chunks_(s, shard_, shards_.size(), s.count, 1),
        slots_(s, chunks_, per_row_),
        all_(slots_.add(grid_.places, Format::kPacked)),
        b_(Collective::kBroadcast, "hierarchical Broadcast", s) {
    std::iota(shards_.begin(), shards_.end(), size_t{0});
  }

  Plan build() {
    const size_t count = chunks_.count();
    encoded_.assign(count, kNone);
    decoded_ = encoded_;
    exchanged_.fill(encoded_);
    // A phase of a chunk goes along with the phase before of the chunk `lag` later.
    const size_t lag = std::min<size_t>(2, (chunks_.slots() - 1) / (kPhases - 1));
    for (size_t t = 0; t < count + lag * (kPhases - 1); ++t) {
      if (t < count && is_root_) encode(t);
      if (lag == 0)
        for (size_t k = 0; k < kPhases; ++k) exchange(k, k + 1, t, 0);
      else
        exchange(0, kPhases, t, lag);
    }
    return b_.take(slots_.bytes());
  }

 private:
  // To the neighbours of the root; to the other nodes; among these; and within each.
  enum Phase : size_t { kToPlaces, kToNodes, kBetween, kWithin, kPhases };

  int rank(size_t node, size_t place) const {
    return static_cast<int>(grid_.rank((node + s_.topology.node[s_.root]) % grid_.nodes,
                                       (place + s_.topology.place[s_.root]) % grid_.places));
  }

  // Of the rank at that place of a node that is not the root's.
  size_t shard_of(size_t node, size_t place) const { return place * per_row_ + node - 1; }
  std::span<const size_t> row(size_t place) const {
    return std::span(shards_).subspan(place * per_row_, per_row_);
  }
  Place place_of(size_t c, size_t shard) const {
    return slots_.at(c, all_, shard / per_row_, shard % per_row_);
  }

  void encode(size_t c) {
    Step step{"encode", Lane::kEncode, {}, {}, {}};
    wait_for_slot(c, step);
    for (const size_t p : shards_)
      b_.push(step.compute,
              pack_broadcast(b_, s_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    encoded_[c] = b_.add(std::move(step));
  }

  // Until the chunk before has left it.
  void wait_for_slot(size_t c, Step& step) const {
    const size_t before = chunks_.before(c);
    if (before == kNone) return;
    step.after.push_back(decoded_[before]);
    for (const std::vector<size_t>& exchanged : exchanged_) step.after.push_back(exchanged[before]);
  }

  // One step of some phases, of the chunks that are so far.
  void exchange(size_t first, size_t last, size_t t, size_t lag) {
    const auto goes = [&](size_t k) { return t >= k * lag && t - k * lag < chunks_.count(); };
    Step step{"exchange", Lane::kCommunicate, {}, {}, {}};
    for (size_t k = first; k < last; ++k)
      if (goes(k)) send_and_receive(static_cast<Phase>(k), t - k * lag, step);
    const size_t exchanged = b_.add(std::move(step));
    for (size_t k = first; k < last; ++k) {
      if (!goes(k)) continue;
      const size_t c = t - k * lag;
      if (takes_part(static_cast<Phase>(k))) exchanged_[k][c] = exchanged;
      if (k == kWithin) decode(c);
    }
  }

  bool takes_part(Phase phase) const {
    if (phase == kToPlaces) return node_ == 0;
    if (phase == kBetween) return node_ != 0 && per_row_ > 1;
    return true;
  }

  void send_and_receive(Phase phase, size_t c, Step& step) const {
    if (!takes_part(phase)) return;
    wait_for(phase, c, step);
    switch (phase) {
      case kToPlaces:
        return to_places(c, step);
      case kToNodes:
        return to_nodes(c, step);
      case kBetween:
        return between(c, step);
      default:
        return within(c, step);
    }
  }

  // What a rank sends it has packed, or has from the phases before; what it gets first waits for
  // its slot.
  void wait_for(Phase phase, size_t c, Step& step) const {
    if (is_root_) return step.after.push_back(encoded_[c]);
    const Phase first = node_ == 0 ? kToPlaces : kToNodes;
    if (phase == first) return wait_for_slot(c, step);
    step.after.push_back(exchanged_[first][c]);
    if (phase == kWithin) step.after.push_back(exchanged_[kBetween][c]);
  }

  void to_places(size_t c, Step& step) const {
    if (!is_root_) return slots_.push_row(step, s_.root, false, c, all_, place_, row(place_));
    for (size_t p = 1; p < grid_.places; ++p)
      slots_.push_row(step, rank(0, p), true, c, all_, p, row(p));
  }

  void to_nodes(size_t c, Step& step) const {
    if (node_ != 0) return push(step, rank(0, place_), false, c, shard_of(node_, place_));
    for (size_t m = 1; m < grid_.nodes; ++m)
      push(step, rank(m, place_), true, c, shard_of(m, place_));
  }

  void between(size_t c, Step& step) const {
    for (size_t k = 1; k < per_row_; ++k) {
      const size_t to = 1 + (node_ - 1 + k) % per_row_;
      const size_t from = 1 + (node_ - 1 + per_row_ - k) % per_row_;
      push(step, rank(to, place_), true, c, shard_of(node_, place_));
      push(step, rank(from, place_), false, c, shard_of(from, place_));
    }
  }

  void within(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.places; ++k) {
      const size_t to = (place_ + k) % grid_.places;
      const size_t from = (place_ + grid_.places - k) % grid_.places;
      if (rank(node_, to) != s_.root)
        slots_.push_row(step, rank(node_, to), true, c, all_, place_, row(place_));
      if (!is_root_) slots_.push_row(step, rank(node_, from), false, c, all_, from, row(from));
    }
  }

  void push(Step& step, int peer, bool send, size_t c, size_t shard) const {
    b_.push(step.transfers, peer, send, place_of(c, shard), chunks_.range(shard, c).count);
  }

  void decode(size_t c) {
    Step step{"decode", Lane::kDecode, {is_root_ ? encoded_[c] : exchanged_[kWithin][c]}, {}, {}};
    for (const size_t p : shards_)
      b_.push(step.compute, unpack_broadcast(b_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    decoded_[c] = b_.add(std::move(step));
  }

  const Shape& s_;
  const Grid grid_;
  const size_t per_row_, node_, place_;
  const bool is_root_;
  std::vector<size_t> shards_;  // their numbers: of the ranks at a place they follow each other
  const size_t shard_;          // elements
  const Chunks chunks_;
  Slots slots_;
  const Slots::Area all_;
  Builder b_;
  // By chunk, the steps; by phase those that this rank takes part in.
  std::vector<size_t> encoded_, decoded_;
  std::array<std::vector<size_t>, kPhases> exchanged_;
};

}  // namespace

Plan hierarchical_broadcast(const Shape& s) { return InTwoLevels(s).build(); }

}  // namespace terse::plan
