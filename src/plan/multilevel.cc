// Collectives in three levels or more, of nodes in groups: as in two (hierarchical.cc), with levels
// between groups of nodes above those, so that a rank has few peers. Nodes may have one rank each:
// it packs what it has for its group.
//
// A message goes in rows: the shards of the ranks that share some digits, which lie side by side in
// the message, are one body. So however many ranks there are, a rank packs one body for each
// neighbour, sums one on each level, and unpacks one for each place. What goes to a peer is a
// section of a body: of its codes, and of its parameters. A long message is cut into parts, each
// with shards and rows of its own, that follow each other through the levels.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "plan/in_levels.h"

namespace terse::plan {
namespace {

// Section of a body, from one element to another; its parameters begin at a whole word.
struct Section {
  size_t codes, code_bytes, params, param_bytes;  // offsets in the body
};

class InRows : InLevels {
 public:
  InRows(Collective collective, const char* algorithm, const Shape& s, Grid grid)
      : InLevels(collective, s, std::move(grid)),
        cut_(cut_of_rows(s)),
        shard_(cut_.shard),
        lag_(cut_.parts > 2 ? 2 : 1),
        out_(levels_),
        in_(levels_),
        b_(collective, algorithm, s) {
    lay_out();
  }

  Plan build() {
    take_through(
        b_, cut_.parts, lag_, [&](size_t c) { return begin(c); },
        [&](const Phase& phase) { return areas_of(phase); },
        [&](const Phase& phase, size_t c, Step& step) { send_and_receive(phase, c, step); },
        [&](const Phase& phase, size_t c) { return compute(phase, c); });
    return b_.take(scratch_bytes_);
  }

 private:
  // Bodies of a part in scratch, in slots for as many parts as are in flight there.
  struct Area : SlotUses {
    size_t begin = 0, slot_bytes = 0;
    std::vector<size_t> bodies = {};  // offsets in a slot

    Place place(size_t c, size_t body) const {
      return {Region::kScratch, begin + c % slots * slot_bytes + bodies[body]};
    }
  };
  // Slots from the first use of a part to the last, so many phases later.
  size_t slots_of(size_t phases) const { return phases * lag_ + 2; }

  void lay_out() {
    const size_t row = grid_.block(0), places = grid_.places();
    const Format within = scattered(0);
    const auto size = [&](Format format, size_t shards) {
      return s_.bytes(format, longest(shards));
    };
    if (within != Format::kRaw) out_[0] = add(places, size(within, row), slots_of(0));
    if (places > 1) in_[0] = add(places, size(within, row), slots_of(0));
    if (const size_t sums = sums_of_repacking(); sums != 0) sums_ = add(1, 4 * longest(sums), 1);
    for (size_t level = 1; level < levels_; ++level) {
      const Format format = scattered(level);
      out_[level] = add(1, size(format, grid_.block(level - 1)), slots_of(1));
      in_[level] = add(grid_.radix(level), size(format, grid_.block(level)), slots_of(0));
    }
    own_ = add(1, size(gathered_, 1), 1);
    rows_ = add(places, size(gathered_, row), slots_of(levels_));
  }

  // Adds an area of bodies of so many bytes each.
  Area add(size_t bodies, size_t bytes, size_t slots) {
    Area area{{.slots = std::min(slots, cut_.parts)}, scratch_bytes_};
    for (size_t i = 0; i < bodies; ++i) {
      area.bodies.push_back(area.slot_bytes);
      area.slot_bytes += Chunks::round_up(bytes, Chunks::kAlignment);
    }
    area.steps.resize(cut_.parts);
    scratch_bytes_ += area.slots * area.slot_bytes;
    return area;
  }

  // First element of a part in the message, and number of its elements.
  size_t begin_of(size_t c) const { return c * cut_.part; }
  size_t length_of(size_t c) const { return std::min(cut_.part, s_.count - begin_of(c)); }
  // Max number of elements of so many shards of a part.
  size_t longest(size_t shards) const { return std::min(shards * shard_, length_of(0)); }

  // First element of the shard at a position of a part, in the part; and number of those of some
  // shards from there on.
  size_t element(size_t c, size_t position) const {
    return std::min(position * shard_, length_of(c));
  }
  size_t count(size_t c, size_t position, size_t shards) const {
    return element(c, position + shards) - element(c, position);
  }
  // Same in the message: for raw elements, and the random numbers.
  size_t origin(size_t c, size_t position) const { return begin_of(c) + element(c, position); }
  Place raw(Region region, size_t c, size_t position) const {
    return b_.raw(region, origin(c, position));
  }
  // Position of the first shard that the ranks have that share a rank's digits up to a level.
  size_t first(size_t rank, size_t level) const { return grid_.first(rank, level); }
  size_t row(size_t place) const { return place * grid_.block(0); }

  // Section of a body of shards from position `of` on: `shards` of them, from `from` on.
  Section section(size_t c, Format format, size_t of, size_t of_shards, size_t from,
                  size_t shards) const {
    const size_t all = count(c, of, of_shards);
    const size_t begin = element(c, from) - element(c, of), end = begin + count(c, from, shards);
    const auto params = [&](size_t n) {
      return n == 0 ? 0 : s_.bytes(format, n) - s_.code_bytes(format, n);
    };
    const auto codes = [&](size_t n) { return n == 0 ? 0 : s_.code_bytes(format, n); };
    return {codes(begin), codes(end) - codes(begin), codes(all) + params(begin),
            params(end) - params(begin)};
  }
  // All of a body.
  Section whole(size_t c, Format format, size_t of, size_t shards) const {
    return section(c, format, of, shards, of, shards);
  }

  static Place at(const Place& place, size_t offset) {
    return {place.region, place.offset + offset};
  }

  size_t add(Step step, size_t c, const Areas& areas) {
    return add_in(b_, std::move(step), c, areas);
  }

  // Message of a section: two, where codes and parameters lie apart.
  void push(Step& step, size_t peer, bool send, const Place& body, const Section& section) const {
    const auto push = [&](size_t offset, size_t bytes) {
      if (bytes != 0)
        step.transfers.push_back({static_cast<int>(peer), send, at(body, offset), bytes});
    };
    push(section.codes, section.code_bytes);
    push(section.params, section.param_bytes);
  }

  // Computes that precede all phases.
  size_t begin(size_t c) {
    if (grid_.places() == 1) return reduce(0, c);
    Step step{.name = "encode", .lane = Lane::kEncode};
    for (size_t k = repacks(0) ? 0 : 1; scattered(0) != Format::kRaw && k < grid_.places(); ++k) {
      const size_t to = at_distance(k, digit(0), grid_.places()).to;
      b_.push(step.compute, {.inputs = {{raw(Region::kSend, c, row(to)), Format::kRaw}},
                             .target = (k == 0 ? in_ : out_)[0].place(c, to),
                             .target_format = scattered(0),
                             .count = count(c, row(to), grid_.block(0)),
                             .origin = origin(c, row(to)),
                             .shared_draw = draw_within(b_, to)});
    }
    return add(std::move(step), c, repacks(0) ? Areas{&out_[0], &in_[0]} : Areas{&out_[0]});
  }

  Areas areas_of(const Phase& phase) {
    if (phase.gathers) return {&rows_};
    return {&out_[phase.level], &in_[phase.level]};
  }

  // Computes that follow a phase; returns the last step.
  size_t compute(const Phase& phase, size_t c) {
    if (!phase.gathers) return reduce(phase.level, c);
    if (&phase == &phases_.back()) return gets_result() ? decode(c) : exchanged_[c];
    return sends(phase) ? kNone : computed_[c];
  }

  void send_and_receive(const Phase& phase, size_t c, Step& step) const {
    const size_t level = phase.level, radix = grid_.radix(level);
    for (size_t k = 1; k < radix; ++k) {
      const auto [to, from] = at_distance(k, digit(level), radix);
      if (phase.gathers) {
        if (gathers_at(level, to)) gather(step, c, peer(level, to), true, self_, level);
        if (gathers_at(level, digit(level)))
          gather(step, c, peer(level, from), false, peer(level, from), level);
      } else if (level == 0) {
        scatter_rows(step, c, to, from);
      } else {
        scatter(step, c, peer(level, to), peer(level, from), level);
      }
    }
  }

  void scatter_rows(Step& step, size_t c, size_t to, size_t from) const {
    const Format format = scattered(0);
    const Place sent =
        format == Format::kRaw ? raw(Region::kSend, c, row(to)) : out_[0].place(c, to);
    push_row(step, c, peer(0, to), true, to, sent, format);
    push_row(step, c, peer(0, from), false, digit(0), in_[0].place(c, from), format);
  }

  // Message of a whole row, of the ranks at a place.
  void push_row(Step& step, size_t c, size_t peer, bool send, size_t place, const Place& body,
                Format format) const {
    b_.push(step.transfers, static_cast<int>(peer), send, body,
            count(c, row(place), grid_.block(0)), format);
  }

  void scatter(Step& step, size_t c, size_t to, size_t from, size_t level) const {
    push(step, to, true, out_[level].place(c, 0), section_for(c, to, level));
    push(step, from, false, in_[level].place(c, index(level, from)),
         whole(c, scattered(level), first(self_, level), grid_.block(level)));
  }

  // Section of what goes on from a level to the next one, for a member of the group there.
  Section section_for(size_t c, size_t member, size_t level) const {
    return section(c, scattered(level), first(self_, level - 1), grid_.block(level - 1),
                   first(member, level), grid_.block(level));
  }

  // Copies a section of a body to another one.
  static void copy(Step& step, const Place& to, const Section& there, const Place& from,
                   const Section& section) {
    const auto copy = [&](size_t target, size_t source, size_t bytes) {
      if (bytes != 0) step.copies.push_back({at(to, target), at(from, source), bytes});
    };
    copy(there.codes, section.codes, section.code_bytes);
    copy(there.params, section.params, section.param_bytes);
  }

  size_t reduce(size_t level, size_t c) {
    Step step = step_of_sums(level, exchanged_[c]);
    const size_t of = first(self_, level), shards = grid_.block(level);
    const bool is_last = level + 1 == levels_;
    if (level != 0) keep(level, c);
    Area& target = is_last ? own_ : out_[level + 1];
    Compute sum{.inputs = {},
                .target = target.place(c, 0),
                .target_format = summed(level),
                .averages = level == 0,
                .count = count(c, of, shards),
                .origin = origin(c, of),
                .stage = static_cast<uint32_t>(level) + 1,
                .shared_draw = draw_of_sum(b_, level)};
    for (size_t i = 0; i < grid_.radix(level); ++i) {
      const bool is_raw = level == 0 && i == digit(0) && !repacks(0);
      sum.inputs.push_back(is_raw ? Input{raw(Region::kSend, c, of), Format::kRaw}
                                  : Input{in_[level].place(c, i), scattered(level)});
    }
    Areas areas{&target, &in_[level]};
    if (repacks(level)) {
      sum.sums = sums_.place(c, 0);
      areas.push_back(&sums_);
    }
    b_.push(step.compute, std::move(sum));
    const size_t reduced = add(std::move(step), c, areas);
    return is_last ? place_own(reduced, c) : reduced;
  }

  // Puts what the rank itself adds to a level's sum where it lies as what it receives.
  void keep(size_t level, size_t c) {
    Step step{.name = "keep", .lane = Lane::kDecode, .after = {exchanged_[c]}};
    copy(step, in_[level].place(c, index(level, self_)),
         whole(c, scattered(level), first(self_, level), grid_.block(level)),
         out_[level].place(c, 0), section_for(c, self_, level));
    add(std::move(step), c, {&in_[level], &out_[level]});
  }

  // Puts the rank's own shard into its row.
  size_t place_own(size_t reduced, size_t c) {
    Step step{.name = "keep", .lane = Lane::kDecode, .after = {reduced}};
    const size_t own = grid_.position(self_);
    copy(step, rows_.place(c, digit(0)),
         section(c, gathered_, row(digit(0)), grid_.block(0), own, 1), own_.place(c, 0),
         whole(c, gathered_, own, 1));
    const size_t placed = add(std::move(step), c, {&own_, &rows_});
    return placed == kNone ? reduced : placed;
  }

  // Message of the shards that a rank has before it gathers on a level.
  void gather(Step& step, size_t c, size_t peer, bool send, size_t of, size_t level) const {
    const size_t place = grid_.digit(of, 0);
    const Place body = rows_.place(c, place);
    if (level == 0) return push_row(step, c, peer, send, place, body, gathered_);
    push(step, peer, send, body,
         section(c, gathered_, row(place), grid_.block(0), first(of, level), grid_.block(level)));
  }

  size_t decode(size_t c) {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = rows_.steps[c]};
    for (size_t place = 0; place < grid_.places(); ++place)
      b_.push(step.compute, {.inputs = {{rows_.place(c, place), gathered_}},
                             .target = raw(Region::kRecv, c, row(place)),
                             .target_format = Format::kRaw,
                             .count = count(c, row(place), grid_.block(0))});
    return add(std::move(step), c, {&rows_});
  }

  const RowCut cut_;
  const size_t shard_;  // max elements of a part that a rank owns
  // Number of parts by which a phase follows the one before it: by two a part is computed
  // meanwhile.
  const size_t lag_;
  std::vector<Area> out_, in_;  // by level: to send, and received, by member
  Area own_, rows_;             // the own sum; all that is gathered, by place
  Area sums_;
  size_t scratch_bytes_ = 0;
  Builder b_;
};

Plan of_message(Collective collective, const char* algorithm, const Shape& s) {
  return InRows(collective, algorithm, s, grid_of_groups(s.topology)).build();
}

}  // namespace

RowCut cut_of_rows(const Shape& s) {
  const auto ranks = static_cast<size_t>(s.ranks);
  const auto has_whole_words = [&](size_t elements) {
    return std::ranges::all_of(
        std::array{&s.packing, &s.within.packing, &s.sum.packing, &s.outer.packing},
        [=](const Packing* packing) {
          const auto params = [&](size_t n) { return packing->bytes(n) - packing->codes(n); };
          return !packing->bytes || params(4 * elements) == 4 * params(elements);
        });
  };
  size_t quantum = quantum_of_levels(s);
  for (size_t words = 1; words < sizeof(uint32_t) && !has_whole_words(quantum); words *= 2)
    quantum *= 2;
  const size_t wanted = s.chunk(s.count, messages_in_levels(s.topology)) / s.element_bytes;
  const size_t parts =
      std::clamp<size_t>(s.count / std::max<size_t>(1, wanted), 1, ChunkPolicy::kMaxChunks);
  const size_t part = Chunks::round_up((s.count + parts - 1) / parts, quantum * ranks);
  const size_t count = std::max<size_t>(1, (s.count + part - 1) / part);
  // One part alone has shards of equal length.
  if (count == 1) return {1, s.count, Chunks::round_up((s.count + ranks - 1) / ranks, quantum)};
  return {count, part, part / ranks};
}

Plan multilevel_all_reduce(const Shape& s) {
  return of_message(Collective::kAllReduce, "multilevel AllReduce", s);
}

Plan multilevel_reduce(const Shape& s) {
  return of_message(Collective::kReduce, "multilevel Reduce", s);
}

Plan multilevel_reduce_scatter(const Shape& s) {
  return in_shards(Collective::kReduceScatter, "multilevel ReduceScatter", s,
                   grid_of_groups(s.topology));
}

Plan multilevel_all_gather(const Shape& s) {
  return in_shards(Collective::kAllGather, "multilevel AllGather", s, grid_of_groups(s.topology));
}

}  // namespace terse::plan
