// Collectives in levels, of nodes that mostly have several ranks each: first within a node, where
// bytes are cheap, then between nodes, whose ranks share a link. A rank is at a place of a node;
// between nodes it talks to the ranks at its own place only, so each sends what is its own 1/L of
// the message, with L ranks on a node: ZeRO++ (section 3.3) and SDP4Bit (section 4, TLq). Of many
// nodes it may talk to those of its own group first, then to one of each group, and so on: with k
// nodes to a group it has k - 1 peers there, and 1/k of what it has sent these goes to other
// groups.
//
// ReduceScatter: within a node, each rank gets from its neighbours what belongs to the ranks at its
// place, on all nodes, and sums it; packed anew, the sums go to the groups of their nodes, and are
// summed there; and so level by level, until each shard is at its owner.
//
// AllGather: each shard crosses to the other nodes once, to the ranks at its place there, level by
// level from the highest one down, and these pass it on to their neighbours, packed as it is: so
// all ranks hold the same bytes.
//
// AllReduce: the one on shards, and then the other. Reduce: the same, but of the other only what is
// on its way to the root. What is gathered may have a format of its own, as in two-shot AllReduce.
#include <algorithm>
#include <span>
#include <vector>

#include "plan/in_levels.h"

namespace terse::plan {
namespace {

// A chunk in many levels has a launch and a round of messages for each level, so it is as long as
// if this many messages went to each peer.
constexpr size_t kMessagesPerPeer = 4;
// Bytes, raw, of a shard in a chunk that are enough, whatever the policy has for a message; and max
// bodies of a plan on a level, which takes memory for each.
constexpr size_t kEnoughOfShard = 8192, kMaxBodies = 32768;

class Hierarchical : InLevels {
 public:
  Hierarchical(Collective collective, const char* algorithm, const Shape& s, Grid grid)
      : InLevels(collective, s, std::move(grid)),
        shard_(by_message_ ? Chunks::round_up((s.count + s.ranks - 1) / s.ranks, s.quantum())
                           : s.count),
        chunks_(s, shard_, s.ranks, by_message_ ? s.count : s.ranks * s.count, 1, 0,
                levels_ > 2 ? cut_of_shards(s, shard_) : ChunkCut{}),
        slots_(s, chunks_),
        out_(levels_),
        in_(levels_),
        lag_(choose_lag()),
        b_(collective, algorithm, s) {
    for (size_t position = 0; position < static_cast<size_t>(s.ranks); ++position)
      shards_.push_back(grid_.rank_at(position));
  }

  Plan build() {
    take_through(
        b_, chunks_.count(), lag_, [&](size_t c) { return begin(c); },
        [&](const Phase& phase) { return areas_of(phase); },
        [&](const Phase& phase, size_t c, Step& step) { send_and_receive(phase, c, step); },
        [&](const Phase& phase, size_t c) { return compute(phase, c); });
    return b_.take(slots_.bytes());
  }

 private:
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
    if (scatters_) {
      for (size_t level = 0; level < levels_; ++level) {
        const Slots::Rows rows{grid_.radix(level), grid_.block(level)};
        const Format format = scattered(level);
        if (format != Format::kRaw)
          out_[level] = slots_.add(rows, format, slots(level == 0 ? 0 : 1));
        if (grid_.radix(level) > 1) in_[level] = slots_.add(rows, format, slots(0));
      }
      if (const size_t sums = sums_of_repacking(); sums != 0) sums_ = slots_.add_sums({1, sums});
    }
    if (gathers_)
      shares_ = slots_.add({grid_.places(), grid_.nodes()}, gathered_,
                           slots(scatters_ ? levels_ : levels_ - 1));
    return slots_.bytes();
  }

  // Number of the shard that a rank owns; and those of the ranks that share the digits up to a
  // level with it, by position.
  size_t shard_of(size_t owner) const { return shards_[grid_.position(owner)]; }
  std::span<const size_t> shards_of(size_t rank, size_t level) const {
    return std::span(shards_).subspan(grid_.first(rank, level), grid_.block(level));
  }

  // Places of what goes to a member of this rank's group, and of what comes from it: a shard, of
  // the rank at a position.
  Place out(size_t c, size_t level, size_t member, size_t position) const {
    return slots_.at(c, out_[level], index(level, member), position % grid_.block(level));
  }
  Place in(size_t c, size_t level, size_t member, size_t position) const {
    return slots_.at(c, in_[level], index(level, member), position % grid_.block(level));
  }
  Place share(size_t c, size_t position) const {
    return slots_.at(c, shares_, position / grid_.nodes(), position % grid_.nodes());
  }

  Place sent(size_t shard, const Range& r) const {
    return b_.raw(Region::kSend, shard * shard_ + r.first);
  }

  Areas areas_of(const Phase& phase) {
    if (phase.gathers) return {&shares_};
    return {&out_[phase.level], &in_[phase.level]};
  }

  size_t add(Step step, size_t c, const Areas& areas) {
    return add_in(b_, std::move(step), c, areas);
  }

  void send_and_receive(const Phase& phase, size_t c, Step& step) const {
    step.transfers.reserve(step.transfers.size() + 2 * grid_.radix(phase.level));
    for (size_t k = 1; k < grid_.radix(phase.level); ++k) {
      const auto [to, from] = at_distance(k, digit(phase.level), grid_.radix(phase.level));
      if (phase.gathers)
        gather(phase.level, to, from, c, step);
      else
        scatter(phase.level, peer(phase.level, to), peer(phase.level, from), c, step);
    }
  }

  // Computes that follow a phase; returns the step of the last.
  size_t compute(const Phase& phase, size_t c) {
    if (!phase.gathers) return reduce(phase.level, c);
    if (&phase == &phases_.back()) return decode(c);
    return sends(phase) ? kNone : computed_[c];
  }

  // Computes that precede all phases.
  size_t begin(size_t c) {
    Step step{.name = "encode", .lane = Lane::kEncode};
    if (!scatters_) {
      encode(step, self_, 0, share(c, grid_.position(self_)), Format::kPacked, {}, c);
      return add(std::move(step), c, {&shares_});
    }
    if (grid_.places() == 1) return reduce(0, c);
    if (scattered(0) != Format::kRaw) encode_for_neighbours(step, c);
    return add(std::move(step), c, repacks(0) ? Areas{&out_[0], &in_[0]} : Areas{&out_[0]});
  }

  void encode(Step& step, size_t owner, size_t from, const Place& target, Format format,
              std::optional<SharedDraw> draw, size_t c) const {
    const Range r = chunks_.range(shard_of(owner), c);
    b_.push(step.compute, {.inputs = {{b_.raw(Region::kSend, from + r.first), Format::kRaw}},
                           .target = target,
                           .target_format = format,
                           .count = r.count,
                           .origin = r.first,
                           .shard = static_cast<uint32_t>(shard_of(owner)),
                           .shared_draw = draw});
  }

  // A sum in one format of packed data in another takes no raw input: the own shards are packed,
  // too.
  void encode_for_neighbours(Step& step, size_t c) const {
    step.compute.reserve(static_cast<size_t>(s_.ranks));
    for (size_t k = repacks(0) ? 0 : 1; k < grid_.places(); ++k) {
      const size_t place = at_distance(k, digit(0), grid_.places()).to, to = peer(0, place);
      for (size_t node = 0; node < grid_.nodes(); ++node) {
        const size_t owner = grid_.rank(node, place), position = grid_.position(owner);
        encode(step, owner, shard_of(owner) * shard_,
               k == 0 ? in(c, 0, self_, position) : out(c, 0, to, position), scattered(0),
               draw_within(b_, place), c);
      }
    }
  }

  void scatter(size_t level, size_t to, size_t from, size_t c, Step& step) const {
    if (scattered(level) == Format::kRaw) return scatter_raw(to, from, c, step);
    slots_.push_row(step, static_cast<int>(to), true, c, out_[level], out(c, level, to, 0),
                    shards_of(to, level));
    slots_.push_row(step, static_cast<int>(from), false, c, in_[level], in(c, level, from, 0),
                    shards_of(self_, level));
  }

  // Sends raw shards one by one, as they lie apart in the send buffer.
  void scatter_raw(size_t to, size_t from, size_t c, Step& step) const {
    for (const size_t shard : shards_of(to, 0)) {
      const Range r = chunks_.range(shard, c);
      b_.push(step.transfers, static_cast<int>(to), true, sent(shard, r), r.count, Format::kRaw);
    }
    for (size_t i = 0; i < grid_.block(0); ++i)
      b_.push(step.transfers, static_cast<int>(from), false, in(c, 0, from, i),
              chunks_.range(shards_of(self_, 0)[i], c).count, Format::kRaw);
  }

  size_t reduce(size_t level, size_t c) {
    Step step = step_of_sums(level, exchanged_[c]);
    step.compute.reserve(grid_.block(level));
    const bool is_last = level + 1 == levels_;
    for (size_t i = 0; i < grid_.block(level); ++i) {
      const size_t position = position_of_sum(level, i), shard = shards_[position];
      const Range r = chunks_.range(shard, c);
      Compute sum{.inputs = {},
                  .target = sum_of(level, position, r, c),
                  .target_format = summed(level),
                  .averages = level == 0,
                  .count = r.count,
                  .origin = r.first,
                  .shard = static_cast<uint32_t>(shard),
                  .stage = static_cast<uint32_t>(level) + 1,
                  .shared_draw = draw_of_sum(b_, level)};
      // Sources in the order of scratch: a launch can name any number of them by their distance.
      sum.inputs.reserve(grid_.radix(level));
      for (const size_t member : groups_[level])
        sum.inputs.push_back(member == self_
                                 ? own_part(level, position, r, c)
                                 : Input{in(c, level, member, position), scattered(level)});
      if (repacks(level)) sum.sums = slots_.at(c, sums_, 0, position % sums_of_repacking());
      b_.push(step.compute, std::move(sum));
    }
    Areas areas{&in_[level]};
    if (repacks(level)) areas.push_back(&sums_);
    if (level != 0) areas.push_back(&out_[level]);
    areas.push_back(is_last ? &shares_ : &out_[level + 1]);
    return add(std::move(step), c, areas);
  }

  // Position of a level's sum: in the order of nodes where inputs are raw, as these lie in the send
  // buffer. A launch names shards at equal distances once.
  size_t position_of_sum(size_t level, size_t i) const {
    return level == 0 ? grid_.position(grid_.rank(i, digit(0))) : grid_.first(self_, level) + i;
  }

  // Place of a level's sum: where it goes on from.
  Place sum_of(size_t level, size_t position, const Range& r, size_t c) const {
    if (level + 1 < levels_) {
      const size_t to = peer(level + 1, grid_.digit(grid_.rank_at(position), level + 1));
      return out(c, level + 1, to, position);
    }
    return gathers_ ? share(c, position) : b_.raw(Region::kRecv, r.first);
  }

  // What the rank itself adds to a level's sum.
  Input own_part(size_t level, size_t position, const Range& r, size_t c) const {
    if (level != 0) return {out(c, level, self_, position), scattered(level)};
    if (repacks(0)) return {in(c, 0, self_, position), scattered(0)};
    return {sent(shards_[position], r), Format::kRaw};
  }

  // What is gathered goes packed as received.
  void gather(size_t level, size_t to, size_t from, size_t c, Step& step) const {
    if (gathers_at(level, to)) push_shares(step, peer(level, to), true, self_, level, c);
    if (gathers_at(level, digit(level)))
      push_shares(step, peer(level, from), false, peer(level, from), level, c);
  }

  // Message of the shards that a rank has before it gathers on a level.
  void push_shares(Step& step, size_t peer, bool send, size_t of, size_t level, size_t c) const {
    slots_.push_row(step, static_cast<int>(peer), send, c, shares_,
                    share(c, grid_.first(of, level)), shards_of(of, level));
  }

  size_t decode(size_t c) {
    if (!gets_result()) return exchanged_[c];
    Step step{"decode", Lane::kDecode, shares_.steps[c], {}, {}};
    step.compute.reserve(shards_.size());
    for (size_t n = 0; n < shards_.size(); ++n) {  // in the order of nodes, as above
      const size_t rank = grid_.rank(n % grid_.nodes(), n / grid_.nodes());
      const size_t position = grid_.position(rank), shard = shards_[position];
      const Range r = chunks_.range(shard, c);
      b_.push(step.compute, {.inputs = {{share(c, position), gathered_}},
                             .target = b_.raw(Region::kRecv, shard * shard_ + r.first),
                             .target_format = Format::kRaw,
                             .count = r.count});
    }
    return add(std::move(step), c, {&shares_});
  }

  const size_t shard_;  // max elements that a rank owns
  const Chunks chunks_;
  std::vector<size_t> shards_;  // numbers of shards, by position
  Slots slots_;
  std::vector<Slots::Area> out_, in_;  // by level
  Slots::Area sums_, shares_;
  const size_t lag_;
  Builder b_;
};

Plan in_two_levels(Collective collective, const char* algorithm, const Shape& s) {
  return in_shards(collective, algorithm, s, Grid(s.topology));
}

}  // namespace

ChunkCut cut_of_shards(const Shape& s, size_t shard) {
  const auto ranks = static_cast<size_t>(s.ranks);
  const size_t part = std::clamp<size_t>(s.chunk_policy.shard_bytes, 1, kEnoughOfShard);
  const size_t parts = shard * s.element_bytes / part, bodies = kMaxBodies / ranks;
  return {.quantum = quantum_of_levels(s),
          .messages = std::min(ranks, kMessagesPerPeer * messages_in_levels(s.topology)),
          .max_chunks = std::clamp<size_t>(std::min(parts, bodies), 1, ChunkPolicy::kMaxChunks)};
}

Plan in_shards(Collective collective, const char* algorithm, const Shape& s, Grid grid) {
  return Hierarchical(collective, algorithm, s, std::move(grid)).build();
}

Plan hierarchical_all_reduce(const Shape& s) {
  return in_two_levels(Collective::kAllReduce, "hierarchical AllReduce", s);
}

Plan hierarchical_reduce(const Shape& s) {
  return in_two_levels(Collective::kReduce, "hierarchical Reduce", s);
}

Plan hierarchical_reduce_scatter(const Shape& s) {
  return in_two_levels(Collective::kReduceScatter, "hierarchical ReduceScatter", s);
}

Plan hierarchical_all_gather(const Shape& s) {
  return in_two_levels(Collective::kAllGather, "hierarchical AllGather", s);
}

}  // namespace terse::plan
