// Broadcast in two levels, where nodes have several ranks each. The message is cut into a shard for
// each rank of the other nodes. The root gives each of its neighbours the shards of the ranks at
// that place, and its node sends each shard to its rank; the other nodes share theirs among
// themselves, and each node's ranks what they have. So the root's node sends one packed message in
// all, by all of its ranks, and the other nodes less than one.
//
// What is packed is the same as in the others (broadcast.cc).
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "plan/broadcast.h"
#include "plan/pipeline.h"
#include "plan/rooted_grid.h"
#include "plan/slots.h"

namespace terse::plan {
namespace {

// Nodes and places are counted from the root's.
class InTwoLevels {
 public:
  explicit InTwoLevels(const Shape& s)
      : s_(s),
        grid_(s.topology, s.root),
        node_(grid_.node(s.rank)),
        place_(grid_.place(s.rank)),
        is_root_(s.rank == s.root),
        shard_(Chunks::round_up((s.count + grid_.shards().size() - 1) / grid_.shards().size(),
                                s.quantum())),
        chunks_(s, shard_, grid_.shards().size(), s.count, 1),
        slots_(s, chunks_),
        all_(slots_.add({grid_.places, grid_.per_row}, Format::kPacked, chunks_.slots())),
        b_(Collective::kBroadcast, "hierarchical Broadcast", s) {}

  Plan build() {
    encoded_.assign(chunks_.count(), kNone);
    exchanged_.fill(encoded_);
    pipeline(
        chunks_.count(), kPhases, lag_of(chunks_, kPhases),
        [&](size_t c) {
          if (is_root_) encode(c);
        },
        [&](std::span<const Turn> turns) { exchange(turns); });
    return b_.take(slots_.bytes());
  }

 private:
  // Phases: to the neighbours of the root; to the other nodes; among these; and within each.
  enum Phase : size_t { kToPlaces, kToNodes, kBetween, kIntraPacked, kPhases };

  Place place_of(size_t c, size_t shard) const {
    return slots_.at(c, all_, shard / grid_.per_row, shard % grid_.per_row);
  }

  void encode(size_t c) {
    Step step{.name = "encode", .lane = Lane::kEncode};
    all_.wait(c, step);
    for (const size_t p : grid_.shards())
      b_.push(step.compute,
              pack_broadcast(b_, s_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    encoded_[c] = b_.add(std::move(step));
    all_.add(encoded_[c], c);
  }

  void exchange(std::span<const Turn> turns) {
    Step step{.name = "exchange", .lane = Lane::kCommunicate};
    for (const auto [phase, c] : turns)
      if (takes_part(phase)) send_and_receive(phase, c, step);
    const size_t exchanged = b_.add(std::move(step));
    for (const auto [phase, c] : turns) {
      if (!takes_part(phase)) continue;
      exchanged_[phase][c] = exchanged;
      all_.add(exchanged, c);
      if (phase == kIntraPacked) decode(c);
    }
  }

  bool takes_part(size_t phase) const {
    if (phase == kToPlaces) return node_ == 0;
    if (phase == kBetween) return node_ != 0 && grid_.per_row > 1;
    return true;
  }

  void send_and_receive(size_t phase, size_t c, Step& step) const {
    wait_for(phase, c, step);
    static constexpr std::array kParts = {&InTwoLevels::to_places, &InTwoLevels::to_nodes,
                                          &InTwoLevels::between, &InTwoLevels::within};
    (this->*kParts[phase])(c, step);
  }

  // Waits for what a rank sends, packed or from earlier phases, and for the slot of what it gets
  // first.
  void wait_for(size_t phase, size_t c, Step& step) const {
    if (is_root_) return step.after.push_back(encoded_[c]);
    const Phase first = node_ == 0 ? kToPlaces : kToNodes;
    if (phase == first) return all_.wait(c, step);
    step.after.push_back(exchanged_[first][c]);
    if (phase == kIntraPacked) step.after.push_back(exchanged_[kBetween][c]);
  }

  // Message of the shards for the ranks at a place.
  void push_row(Step& step, int peer, bool send, size_t c, size_t place) const {
    slots_.push_row(step, peer, send, c, all_, slots_.at(c, all_, place, 0), grid_.row(place));
  }

  void to_places(size_t c, Step& step) const {
    if (!is_root_) return push_row(step, s_.root, false, c, place_);
    for (size_t p = 1; p < grid_.places; ++p) push_row(step, grid_.rank(0, p), true, c, p);
  }

  void to_nodes(size_t c, Step& step) const {
    if (node_ != 0) return push(step, grid_.rank(0, place_), false, c, grid_.shard(node_, place_));
    for (size_t m = 1; m < grid_.nodes; ++m)
      push(step, grid_.rank(m, place_), true, c, grid_.shard(m, place_));
  }

  void between(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.per_row; ++k) {
      const size_t to = 1 + (node_ - 1 + k) % grid_.per_row;
      const size_t from = 1 + (node_ - 1 + grid_.per_row - k) % grid_.per_row;
      push(step, grid_.rank(to, place_), true, c, grid_.shard(node_, place_));
      push(step, grid_.rank(from, place_), false, c, grid_.shard(from, place_));
    }
  }

  void within(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.places; ++k) {
      const size_t to = (place_ + k) % grid_.places;
      const size_t from = (place_ + grid_.places - k) % grid_.places;
      if (grid_.rank(node_, to) != s_.root) push_row(step, grid_.rank(node_, to), true, c, place_);
      if (!is_root_) push_row(step, grid_.rank(node_, from), false, c, from);
    }
  }

  void push(Step& step, int peer, bool send, size_t c, size_t shard) const {
    b_.push(step.transfers, peer, send, place_of(c, shard), chunks_.range(shard, c).count);
  }

  void decode(size_t c) {
    Step step{.name = "decode",
              .lane = Lane::kDecode,
              .after = {is_root_ ? encoded_[c] : exchanged_[kIntraPacked][c]}};
    for (const size_t p : grid_.shards())
      b_.push(step.compute, unpack_broadcast(b_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    all_.add(b_.add(std::move(step)), c);
  }

  const Shape& s_;
  const RootedGrid grid_;
  const size_t node_, place_;
  const bool is_root_;
  const size_t shard_;  // elements
  const Chunks chunks_;
  Slots slots_;
  Slots::Area all_;
  Builder b_;
  // Steps by chunk; by phase those that this rank takes part in.
  std::vector<size_t> encoded_;
  std::array<std::vector<size_t>, kPhases> exchanged_;
};

}  // namespace

Plan hierarchical_broadcast(const Shape& s) { return InTwoLevels(s).build(); }

}  // namespace terse::plan
