// Collectives in two levels, where nodes have several ranks each: first within a node, where bytes
// are cheap, then between nodes, whose ranks share a link. A rank is at a place of a node; between
// nodes it talks to the ranks at its own place only, so each sends what is its own 1/L of the
// message, with L ranks on a node: ZeRO++ (section 3.3) and SDP4Bit (section 4, TLq).
//
// ReduceScatter: within a node, each rank gets from its neighbours what belongs to the ranks at its
// place, on all nodes, and sums it; packed anew, the sums go to their nodes, and are summed there.
//
// AllGather: each shard crosses to every other node once, to the rank at its place there, which
// passes it on to its neighbours, packed as it is: so all ranks hold the same bytes.
//
// AllReduce: the one on shards, and then the other. Reduce: the same, but of the other only what is
// on its way to the root. What is gathered may have a format of its own, as in two-shot AllReduce.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "plan/builder.h"
#include "plan/grid.h"
#include "plan/pipeline.h"
#include "plan/slots.h"

namespace terse::plan {
namespace {

enum class Phase : uint8_t { kScatterWithin, kScatterBetween, kGatherBetween, kGatherWithin };

std::vector<Phase> phases_of(Collective collective) {
  using enum Phase;
  if (collective == Collective::kReduceScatter) return {kScatterWithin, kScatterBetween};
  if (collective == Collective::kAllGather) return {kGatherBetween, kGatherWithin};
  return {kScatterWithin, kScatterBetween, kGatherBetween, kGatherWithin};
}

// Others of `n` in order of distance: at distance k one sends to `to`, and receives from `from`.
Neighbours at(size_t distance, size_t self, size_t n) {
  return {(self + distance) % n, (self + n - distance) % n};
}

class Hierarchical {
 public:
  Hierarchical(Collective collective, const char* algorithm, const Shape& s)
      : s_(s),
        phases_(phases_of(collective)),
        gathers_(phases_.back() == Phase::kGatherWithin),
        to_root_(collective == Collective::kReduce),
        by_message_(to_root_ || collective == Collective::kAllReduce),
        gathered_(by_message_ ? s.sum.format : Format::kPacked),
        repacks_(by_message_ && s.sum.repacks()),
        grid_(s.topology),
        self_(s.rank),
        node_(s.topology.node[s.rank]),
        place_(s.topology.place[s.rank]),
        shard_(by_message_ ? Chunks::round_up((s.count + s.ranks - 1) / s.ranks, s.quantum())
                           : s.count),
        chunks_(s, shard_, s.ranks, by_message_ ? s.count : s.ranks * s.count, 1),
        slots_(s, chunks_, grid_.nodes),
        lag_(choose_lag()),
        b_(collective, algorithm, s) {}

  Plan build() {
    computed_.assign(chunks_.count(), kNone);
    exchanged_ = computed_;
    pipeline(
        chunks_.count(), phases_.size(), lag_, [&](size_t c) { computed_[c] = begin(c); },
        [&](std::span<const Turn> turns) { exchange(turns); });
    return b_.take(slots_.bytes());
  }

 private:
  bool changes() const { return s_.within.format == Format::kIntraPacked; }
  bool scatters() const { return phases_.front() == Phase::kScatterWithin; }

  // Number of chunks by which a phase follows the one before it. By one chunk the levels overlap;
  // by two, which takes more memory, also with what is computed.
  size_t choose_lag() {
    const size_t count = chunks_.count(), chunk = s_.ranks * chunks_.packed_bytes();
    if (count > 2 && lay_out(2) <= (count + 2) * chunk) return 2;
    lay_out(1);
    return 1;
  }

  // Lays out the areas: each has slots from the first use of a chunk there to the last, so many
  // lags later, and one more. Returns the bytes of all.
  size_t lay_out(size_t lag) {
    const auto slots = [&](size_t lags) { return lags * lag + 2; };
    slots_.clear();
    if (scatters()) {
      const Format within = s_.within.format;
      if (within != Format::kRaw) out_within_ = slots_.add(grid_.places, within, slots(0));
      in_within_ = slots_.add(grid_.places, within, slots(0));
      if (changes() || repacks_) sums_ = slots_.add_sums(1);
      out_between_ = slots_.add(1, Format::kPacked, slots(1));
      in_between_ = slots_.add(1, Format::kPacked, slots(0));
    }
    if (gathers_) shares_ = slots_.add(grid_.places, gathered_, slots(scatters() ? 2 : 1));
    return slots_.bytes();
  }

  // Shard for, or of, the rank `owner`.
  Place in_slot(size_t c, const Slots::Area& area, size_t row, size_t owner) const {
    return slots_.at(c, area, row, grid_.index(owner));
  }
  // Places of what goes to a neighbour, and of what comes from the one at `place`.
  Place out_within(size_t c, size_t owner) const {
    return in_slot(c, out_within_, s_.topology.place[owner], owner);
  }
  Place in_within(size_t c, size_t place, size_t owner) const {
    return in_slot(c, in_within_, place, owner);
  }
  // Places of what goes to a node, and of what comes from the rank `source`.
  Place out_between(size_t c, size_t owner) const { return in_slot(c, out_between_, 0, owner); }
  Place in_between(size_t c, size_t source) const { return in_slot(c, in_between_, 0, source); }
  Place share(size_t c, size_t owner) const {
    return in_slot(c, shares_, s_.topology.place[owner], owner);
  }

  Place sent(size_t rank, const Range& r) const {
    return b_.raw(Region::kSend, rank * shard_ + r.first);
  }

  using Areas = std::vector<Slots::Area*>;

  Areas areas_of(Phase phase) {
    if (phase == Phase::kScatterWithin) return {&out_within_, &in_within_};
    if (phase == Phase::kScatterBetween) return {&out_between_, &in_between_};
    return {&shares_};
  }

  void exchange(std::span<const Turn> turns) {
    Step step{.name = "exchange", .lane = Lane::kCommunicate};
    for (const auto [k, c] : turns) {
      const Phase phase = phases_[k];
      if (!takes_part(phase)) continue;
      if (sends(phase)) step.after.insert(step.after.end(), {exchanged_[c], computed_[c]});
      for (const Slots::Area* area : areas_of(phase)) area->wait(c, step);
      send_and_receive(phase, c, step);
    }
    const size_t exchanged = b_.add(std::move(step));
    for (const auto [k, c] : turns) {
      const Phase phase = phases_[k];
      if (!takes_part(phase)) continue;
      for (Slots::Area* area : areas_of(phase)) area->add(exchanged, c);
      exchanged_[c] = exchanged;
      computed_[c] = compute(phase, c);
    }
  }

  // Adds a step that computes in some areas.
  size_t add(Step step, size_t c, const Areas& areas) {
    for (const Slots::Area* area : areas) area->wait(c, step);
    const size_t computed = b_.add(std::move(step));
    for (Slots::Area* area : areas) area->add(computed, c);
    return computed;
  }

  void send_and_receive(Phase phase, size_t c, Step& step) const {
    step.transfers.reserve(step.transfers.size() + 2 * s_.ranks);
    static constexpr std::array kParts = {
        &Hierarchical::scatter_within, &Hierarchical::scatter_between,
        &Hierarchical::gather_between, &Hierarchical::gather_within};
    (this->*kParts[static_cast<size_t>(phase)])(c, step);
  }

  // Computes that follow a phase; returns the step of the last.
  size_t compute(Phase phase, size_t c) {
    switch (phase) {
      case Phase::kScatterWithin:
        return reduce_within(c);
      case Phase::kScatterBetween:
        return reduce_between(c);
      case Phase::kGatherBetween:
        return sends(phase) ? kNone : computed_[c];
      case Phase::kGatherWithin:
        break;
    }
    return decode(c);
  }

  // Computes that precede all phases.
  size_t begin(size_t c) {
    Step step{.name = "encode", .lane = Lane::kEncode};
    if (!scatters()) {
      encode(step, self_, 0, share(c, self_), Format::kPacked, {}, c);
      return add(std::move(step), c, {&shares_});
    }
    if (s_.within.format != Format::kRaw) encode_for_neighbours(step, c);
    return add(std::move(step), c,
               changes() ? Areas{&out_within_, &in_within_} : Areas{&out_within_});
  }

  void encode(Step& step, size_t owner, size_t from, const Place& target, Format format,
              std::optional<SharedDraw> draw, size_t c) const {
    const Range r = chunks_.range(owner, c);
    b_.push(step.compute, {.inputs = {{b_.raw(Region::kSend, from + r.first), Format::kRaw}},
                           .target = target,
                           .target_format = format,
                           .count = r.count,
                           .origin = r.first,
                           .shard = static_cast<uint32_t>(owner),
                           .shared_draw = draw});
  }

  // A sum in one format of packed data in another takes no raw input: the own shards are packed,
  // too.
  void encode_for_neighbours(Step& step, size_t c) const {
    step.compute.reserve(s_.ranks);
    for (size_t k = changes() ? 0 : 1; k < grid_.places; ++k)
      for (const size_t owner : grid_.at_place(at(k, place_, grid_.places).to))
        encode(step, owner, owner * shard_,
               k == 0 ? in_within(c, place_, owner) : out_within(c, owner), s_.within.format,
               draw_within(s_.topology.place[owner]), c);
  }

  // Share of a draw for the rank at a place: contributors are its neighbours, and itself if it
  // packs its own.
  std::optional<SharedDraw> draw_within(size_t place) const {
    const size_t missing = changes() ? grid_.places : place;
    const auto draw =
        shared_draw(place_ - (place_ > missing ? 1 : 0), grid_.places - (changes() ? 0 : 1),
                    [&](size_t contributor) {
                      return grid_.rank(node_, contributor + (contributor >= missing ? 1 : 0));
                    });
    return b_.if_shared(draw, s_.within.format);
  }

  // Share of a draw between nodes: contributors are the ranks at this place, the owner's included.
  std::optional<SharedDraw> draw_between() const {
    return b_.if_shared(
        shared_draw(node_, grid_.nodes, [&](size_t node) { return grid_.rank(node, place_); }));
  }

  void scatter_within(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.places; ++k) {
      const auto [to, from] = at(k, place_, grid_.places);
      if (s_.within.format == Format::kRaw) {
        scatter_raw(c, step, to, from);
        continue;
      }
      slots_.push_row(step, neighbour(to), true, c, out_within_, to, grid_.at_place(to));
      slots_.push_row(step, neighbour(from), false, c, in_within_, from, own_row());
    }
  }

  // Sends raw shards one by one, as they lie apart in the send buffer.
  void scatter_raw(size_t c, Step& step, size_t to, size_t from) const {
    for (const size_t owner : grid_.at_place(to)) {
      const Range r = chunks_.range(owner, c);
      b_.push(step.transfers, neighbour(to), true, sent(owner, r), r.count, Format::kRaw);
    }
    for (const size_t owner : grid_.at_place(place_))
      b_.push(step.transfers, neighbour(from), false, in_within(c, from, owner),
              chunks_.range(owner, c).count, Format::kRaw);
  }

  size_t reduce_within(size_t c) {
    Step step{.name = "reduce within", .lane = Lane::kDecode, .after = {exchanged_[c]}};
    step.compute.reserve(grid_.nodes);
    for (const size_t owner : grid_.at_place(place_)) {
      const Range r = chunks_.range(owner, c);
      Compute sum{.inputs = {},
                  .target = out_between(c, owner),
                  .averages = true,
                  .count = r.count,
                  .origin = r.first,
                  .shard = static_cast<uint32_t>(owner),
                  .stage = 1,
                  .shared_draw = draw_between()};
      sum.inputs.reserve(grid_.places);
      for (size_t p = 0; p < grid_.places; ++p)
        sum.inputs.push_back(p == place_ && !changes()
                                 ? Input{sent(owner, r), Format::kRaw}
                                 : Input{in_within(c, p, owner), s_.within.format});
      if (changes()) sum.sums = in_slot(c, sums_, 0, owner);
      b_.push(step.compute, std::move(sum));
    }
    return add(std::move(step), c, {&in_within_, &sums_, &out_between_});
  }

  void scatter_between(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.nodes; ++k) {
      const auto [to, from] = at(k, node_, grid_.nodes);
      const size_t owner = grid_.rank(to, place_), source = grid_.rank(from, place_);
      b_.push(step.transfers, across(to), true, out_between(c, owner),
              chunks_.range(owner, c).count);
      b_.push(step.transfers, across(from), false, in_between(c, source), own(c).count);
    }
  }

  size_t reduce_between(size_t c) {
    Step step{.name = "reduce between", .lane = Lane::kDecode, .after = {exchanged_[c]}};
    const Range r = own(c);
    Compute sum{.inputs = {},
                .target = gathers_ ? share(c, self_) : b_.raw(Region::kRecv, r.first),
                .target_format = gathers_ ? gathered_ : Format::kRaw,
                .count = r.count,
                .origin = r.first,
                .shard = static_cast<uint32_t>(self_),
                .stage = 2};
    if (repacks_) sum.sums = in_slot(c, sums_, 0, self_);
    sum.inputs.reserve(grid_.nodes);
    // Sources in the order of scratch: a launch can name any number of them by their distance.
    for (const size_t source : own_row())
      sum.inputs.push_back({source == self_ ? out_between(c, self_) : in_between(c, source)});
    b_.push(step.compute, std::move(sum));
    return add(std::move(step), c, {&out_between_, &in_between_, &sums_, &shares_});
  }

  void gather_between(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.nodes; ++k) {
      const auto [to, from] = at(k, node_, grid_.nodes);
      const size_t source = grid_.rank(from, place_);
      if (gathers_on(to))
        b_.push(step.transfers, across(to), true, share(c, self_), own(c).count, gathered_);
      if (gathers_on(node_))
        b_.push(step.transfers, across(from), false, share(c, source),
                chunks_.range(source, c).count, gathered_);
    }
  }

  // Packed as received.
  void gather_within(size_t c, Step& step) const {
    for (size_t k = 1; k < grid_.places; ++k) {
      const auto [to, from] = at(k, place_, grid_.places);
      if (gathers_at(to)) slots_.push_row(step, neighbour(to), true, c, shares_, place_, own_row());
      if (gathers_at(place_))
        slots_.push_row(step, neighbour(from), false, c, shares_, from, grid_.at_place(from));
    }
  }

  size_t decode(size_t c) {
    if (!gathers_at(place_)) return exchanged_[c];
    Step step{"decode", Lane::kDecode, shares_.steps[c], {}, {}};
    step.compute.reserve(s_.ranks);
    for (size_t p = 0; p < static_cast<size_t>(s_.ranks); ++p) {
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{share(c, p), gathered_}},
                             .target = b_.raw(Region::kRecv, p * shard_ + r.first),
                             .target_format = Format::kRaw,
                             .count = r.count});
    }
    return add(std::move(step), c, {&shares_});
  }

  // A Reduce is on the root's node before it is gathered within.
  bool takes_part(Phase phase) const { return phase != Phase::kGatherWithin || gathers_on(node_); }
  bool sends(Phase phase) const {
    if (!to_root_) return true;
    if (phase == Phase::kGatherBetween) return !gathers_on(node_);
    return phase != Phase::kGatherWithin || !gathers_at(place_);
  }

  // Returns true if the shards are gathered on that node; and at that place of this node.
  bool gathers_on(size_t node) const {
    return !to_root_ || node == static_cast<size_t>(s_.topology.node[s_.root]);
  }
  bool gathers_at(size_t place) const {
    return !to_root_ || grid_.rank(node_, place) == static_cast<size_t>(s_.root);
  }

  std::span<const size_t> own_row() const { return grid_.at_place(place_); }
  Range own(size_t c) const { return chunks_.range(self_, c); }
  int neighbour(size_t place) const { return static_cast<int>(grid_.rank(node_, place)); }
  int across(size_t node) const { return static_cast<int>(grid_.rank(node, place_)); }

  const Shape& s_;
  const std::vector<Phase> phases_;
  const bool gathers_, to_root_;
  const bool by_message_;  // cut into a shard for each rank; else ranks have one each
  const Format gathered_;
  const bool repacks_;  // what is gathered has other bodies
  const Grid grid_;
  const size_t self_, node_, place_;
  const size_t shard_;  // max elements that a rank owns
  const Chunks chunks_;
  Slots slots_;
  Slots::Area out_within_, in_within_, sums_, out_between_, in_between_, shares_;
  const size_t lag_;
  Builder b_;
  std::vector<size_t> computed_, exchanged_;  // by chunk, its last step of the kind
};

}  // namespace

Plan hierarchical_all_reduce(const Shape& s) {
  return Hierarchical(Collective::kAllReduce, "hierarchical AllReduce", s).build();
}

Plan hierarchical_reduce(const Shape& s) {
  return Hierarchical(Collective::kReduce, "hierarchical Reduce", s).build();
}

Plan hierarchical_reduce_scatter(const Shape& s) {
  return Hierarchical(Collective::kReduceScatter, "hierarchical ReduceScatter", s).build();
}

Plan hierarchical_all_gather(const Shape& s) {
  return Hierarchical(Collective::kAllGather, "hierarchical AllGather", s).build();
}

}  // namespace terse::plan
