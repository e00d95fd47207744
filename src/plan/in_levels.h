// What the builders of collectives in levels have in common (hierarchical.cc, multilevel.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/builder.h"
#include "plan/chunks.h"
#include "plan/grid.h"
#include "plan/pipeline.h"
#include "plan/slots.h"

namespace terse::plan {

// Exchange on a level: of shards to be summed, or of what all ranks get.
struct Phase {
  bool gathers;
  size_t level;
};

// Others of `n` in order of distance: at distance k one sends to `to`, and receives from `from`.
inline Neighbours at_distance(size_t distance, size_t self, size_t n) {
  return {(self + distance) % n, (self + n - distance) % n};
}

// Format of what is sent on a level to be summed. Where nodes have one rank nothing is on the node.
inline Format scattered_format(const Shape& s, size_t level) {
  if (level == 0) return s.topology.size.front() == 1 ? Format::kRaw : s.within.format;
  return level == 1 ? Format::kPacked : s.outer.format;
}

// A rank's part in a collective of a grid.
class InLevels {
 public:
  InLevels(Collective collective, const Shape& s, Grid grid)
      : s_(s),
        grid_(std::move(grid)),
        levels_(grid_.levels()),
        scatters_(collective != Collective::kAllGather),
        gathers_(collective != Collective::kReduceScatter),
        to_root_(collective == Collective::kReduce),
        by_message_(to_root_ || collective == Collective::kAllReduce),
        gathered_(by_message_ ? s.sum.format : Format::kPacked),
        self_(static_cast<size_t>(s.rank)),
        phases_(phases()) {
    for (size_t level = 0; level < levels_; ++level) groups_.push_back(grid_.group(self_, level));
  }

 protected:
  using Areas = std::vector<SlotUses*>;

  // Takes chunks through the phases, each so many chunks behind the one before it.
  //   begin(c): adds the computes that precede all phases, and returns their step
  //   areas_of(phase): what a phase sends from and receives in
  //   send_and_receive(phase, c, step): its transfers
  //   compute(phase, c): adds the computes that follow it, and returns the last step
  template <class Begin, class AreasOf, class SendAndReceive, class Compute>
  void take_through(Builder& b, size_t chunks, size_t lag, const Begin& begin,
                    const AreasOf& areas_of, const SendAndReceive& send_and_receive,
                    const Compute& compute) {
    computed_.assign(chunks, kNone);
    exchanged_ = computed_;
    const auto exchange = [&](std::span<const Turn> turns) {
      Step step{.name = "exchange", .lane = Lane::kCommunicate};
      for (const auto [k, c] : turns) {
        const Phase& phase = phases_[k];
        if (!takes_part(phase)) continue;
        if (sends(phase)) step.after.insert(step.after.end(), {exchanged_[c], computed_[c]});
        for (const SlotUses* area : areas_of(phase)) area->wait(c, step);
        send_and_receive(phase, c, step);
      }
      const size_t exchanged = b.add(std::move(step));
      for (const auto [k, c] : turns) {
        const Phase& phase = phases_[k];
        if (!takes_part(phase)) continue;
        for (SlotUses* area : areas_of(phase)) area->add(exchanged, c);
        exchanged_[c] = exchanged;
        computed_[c] = compute(phase, c);
      }
    };
    pipeline(
        chunks, phases_.size(), lag, [&](size_t c) { computed_[c] = begin(c); }, exchange);
  }

  // Format of what is sent on a level to be summed, and of the level's sums.
  Format scattered(size_t level) const { return scattered_format(s_, level); }
  Format summed(size_t level) const {
    if (level + 1 < levels_) return scattered(level + 1);
    return gathers_ ? gathered_ : Format::kRaw;
  }
  // Returns true if a level's sums are packed in a format with other bodies than what is summed: no
  // input is raw then.
  bool repacks(size_t level) const {
    const Format from = scattered(level), to = summed(level);
    const bool rounds_alone = to == Format::kSumPacked && s_.sum.is_rounding;
    return from != Format::kRaw && to != Format::kRaw &&
           from != (rounds_alone ? Format::kPacked : to);
  }
  // Max number of shards of which a rank repacks sums on one level.
  size_t sums_of_repacking() const {
    for (size_t level = 0; level < levels_; ++level)
      if (repacks(level)) return grid_.block(level);
    return 0;
  }

  // Step that makes a level's sums, behind another one. Where nodes have one rank, on the node it
  // packs what the rank has.
  Step step_of_sums(size_t level, size_t behind) const {
    if (level == 0 && grid_.places() == 1) return {.name = "encode", .lane = Lane::kEncode};
    return {.name = level == 0 ? "reduce within" : "reduce between",
            .lane = Lane::kDecode,
            .after = {behind}};
  }

  // Draw of what this rank packs for the ranks at a place. Its neighbours contribute to the same
  // sums, and the rank at that place if it packs its own.
  std::optional<SharedDraw> draw_within(const Builder& b, size_t place) const {
    const size_t own = digit(0), missing = repacks(0) ? grid_.places() : place;
    const auto draw = shared_draw(own - (own > missing ? 1 : 0),
                                  grid_.places() - (repacks(0) ? 0 : 1), [&](size_t contributor) {
                                    return peer(0, contributor + (contributor >= missing ? 1 : 0));
                                  });
    return b.if_shared(draw, scattered(0));
  }

  // Share of the draw of a level's sums, whose contributors to the next level are its group.
  std::optional<SharedDraw> draw_of_sum(const Builder& b, size_t level) const {
    const size_t next = level + 1;
    if (next == levels_) return {};
    return b.if_shared(shared_draw(digit(next), grid_.radix(next),
                                   [&](size_t contributor) { return peer(next, contributor); }),
                       scattered(next));
  }

  // A Reduce gathers on a level only where all higher digits are the root's.
  bool takes_part(const Phase& phase) const {
    if (!phase.gathers) return true;
    for (size_t level = phase.level + 1; level < levels_; ++level)
      if (!gathers_at(level, digit(level))) return false;
    return true;
  }
  bool sends(const Phase& phase) const {
    return !to_root_ || !phase.gathers || !gathers_at(phase.level, digit(phase.level));
  }
  bool gets_result() const {
    for (size_t level = 0; level < levels_; ++level)
      if (!gathers_at(level, digit(level))) return false;
    return true;
  }
  // Returns true if the ranks with that digit gather on the level.
  bool gathers_at(size_t level, size_t digit) const {
    return !to_root_ || digit == grid_.digit(static_cast<size_t>(s_.root), level);
  }

  size_t digit(size_t level) const { return grid_.digit(self_, level); }
  size_t peer(size_t level, size_t digit) const { return grid_.peer(self_, level, digit); }
  // Index of a member in this rank's group on a level.
  size_t index(size_t level, size_t member) const {
    size_t i = 0;
    while (groups_[level][i] != member) ++i;
    return i;
  }

  const Shape& s_;
  const Grid grid_;
  const size_t levels_;
  const bool scatters_, gathers_, to_root_;
  const bool by_message_;  // cut into a shard for each rank; else ranks have one each
  const Format gathered_;
  const size_t self_;
  std::vector<std::vector<size_t>> groups_;  // of this rank, by level
  const std::vector<Phase> phases_;
  std::vector<size_t> computed_, exchanged_;  // by chunk, its last step of the kind

 private:
  std::vector<Phase> phases() const {
    std::vector<Phase> phases;
    const size_t first = grid_.places() == 1 ? 1 : 0;  // with peers
    for (size_t level = first; scatters_ && level < levels_; ++level)
      phases.push_back({false, level});
    for (size_t level = levels_; gathers_ && level-- > first;) phases.push_back({true, level});
    return phases;
  }
};

// Adds a step that uses slots of a chunk in some areas.
inline size_t add_in(Builder& b, Step step, size_t c, const std::vector<SlotUses*>& areas) {
  for (const SlotUses* area : areas) area->wait(c, step);
  const size_t added = b.add(std::move(step));
  for (SlotUses* area : areas) area->add(added, c);
  return added;
}

// Elements of whole blocks of any format, in many levels.
inline size_t quantum_of_levels(const Shape& shape) {
  return std::max(shape.quantum(), shape.outer.packing.quantum);
}

// Cut of a message in many levels: into parts, and each of these into a shard for each rank; the
// last ones may be short or empty. Parameters of the shards of a row lie side by side in whole
// words.
struct RowCut {
  size_t parts, part, shard;  // number, and max elements
};
RowCut cut_of_rows(const Shape& shape);

// Cut of shards of their own bodies into chunks, in many levels: as of the messages that a rank
// sends, of which each has many shards.
ChunkCut cut_of_shards(const Shape& shape, size_t shard);

// Collective whose ranks have shards of their own bodies, whatever the number of levels.
Plan in_shards(Collective collective, const char* algorithm, const Shape& shape, Grid grid);

}  // namespace terse::plan
