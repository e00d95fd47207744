// Collectives in three levels or more, of nodes in groups: as in two (hierarchical.cc), with levels
// between groups of nodes above those, so that a rank has few peers. Nodes may have one rank each:
// it packs what it has for its group.
//
// A message that is not cut into chunks goes in rows: the shards of the ranks that share some
// digits, which lie side by side in the message, are one body. So however many ranks there are, a
// rank packs one body for each neighbour, sums one on each level, and unpacks one for each place.
// What goes to a peer is a section of a body: of its codes, and of its parameters.
#include <algorithm>
#include <array>
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
        shard_(shard_of_row(s)),
        out_(levels_),
        in_(levels_),
        b_(collective, algorithm, s) {
    lay_out();
  }

  Plan build() {
    done_ = grid_.places() > 1 ? encode() : reduce(0);
    for (const Phase& phase : phases()) {
      Step step{.name = "exchange", .lane = Lane::kCommunicate, .after = {done_}};
      if (takes_part(phase)) send_and_receive(phase, step);
      done_ = b_.add(std::move(step));
      if (!phase.gathers) done_ = reduce(phase.level);
    }
    if (gets_result()) decode();
    return b_.take(scratch_bytes_);
  }

 private:
  // Body in scratch.
  struct Body {
    Place place;
    Format format = Format::kPacked;
  };

  void lay_out() {
    const size_t row = grid_.block(0), places = grid_.places();
    const Format within = scattered(0);
    if (within != Format::kRaw) out_[0] = add(places, within, row);
    if (places > 1) in_[0] = add(places, within, row);
    sums_ = add_bytes(4 * count(0, sums_of_repacking()));
    for (size_t level = 1; level < levels_; ++level) {
      out_[level] = add(1, scattered(level), grid_.block(level - 1));
      in_[level] = add(grid_.radix(level), scattered(level), grid_.block(level));
    }
    own_ = add(1, gathered_, 1);
    rows_ = add(places, gathered_, row);
  }

  Place add_bytes(size_t bytes) {
    const Place place{Region::kScratch, scratch_bytes_};
    scratch_bytes_ += Chunks::round_up(bytes, Chunks::kAlignment);
    return place;
  }

  // Adds bodies of so many shards: the first ones are the longest.
  std::vector<Body> add(size_t bodies, Format format, size_t shards) {
    std::vector<Body> all;
    for (size_t i = 0; i < bodies; ++i)
      all.push_back({add_bytes(s_.bytes(format, count(0, shards))), format});
    return all;
  }

  // First element of the shard at a position, and number of those of some shards from there on.
  size_t element(size_t position) const { return std::min(position * shard_, s_.count); }
  size_t count(size_t position, size_t shards) const {
    return element(position + shards) - element(position);
  }
  // Position of the first shard that the ranks have that share a rank's digits up to a level.
  size_t first(size_t rank, size_t level) const { return grid_.first(rank, level); }
  size_t row(size_t place) const { return place * grid_.block(0); }

  // Section of a body of shards from position `of` on: `shards` of them, from `from` on.
  Section section(Format format, size_t of, size_t of_shards, size_t from, size_t shards) const {
    const size_t all = count(of, of_shards);
    const size_t begin = element(from) - element(of), end = begin + count(from, shards);
    const auto params = [&](size_t n) {
      return n == 0 ? 0 : s_.bytes(format, n) - s_.code_bytes(format, n);
    };
    const auto codes = [&](size_t n) { return n == 0 ? 0 : s_.code_bytes(format, n); };
    return {codes(begin), codes(end) - codes(begin), codes(all) + params(begin),
            params(end) - params(begin)};
  }
  // All of a body.
  Section whole(Format format, size_t of, size_t shards) const {
    return section(format, of, shards, of, shards);
  }

  static Place at(const Place& place, size_t offset) {
    return {place.region, place.offset + offset};
  }

  // Message of a section: two, where codes and parameters lie apart.
  void push(Step& step, size_t peer, bool send, const Body& body, const Section& section) const {
    const auto push = [&](size_t offset, size_t bytes) {
      if (bytes != 0)
        step.transfers.push_back({static_cast<int>(peer), send, at(body.place, offset), bytes});
    };
    push(section.codes, section.code_bytes);
    push(section.params, section.param_bytes);
  }

  size_t encode() {
    Step step{.name = "encode", .lane = Lane::kEncode};
    for (size_t k = repacks(0) ? 0 : 1; scattered(0) != Format::kRaw && k < grid_.places(); ++k) {
      const size_t to = at_distance(k, digit(0), grid_.places()).to;
      b_.push(step.compute, {.inputs = {{raw(Region::kSend, row(to)), Format::kRaw}},
                             .target = (k == 0 ? in_ : out_)[0][to].place,
                             .target_format = scattered(0),
                             .count = count(row(to), grid_.block(0)),
                             .origin = element(row(to)),
                             .shared_draw = draw_within(b_, to)});
    }
    return b_.add(std::move(step));
  }

  Place raw(Region region, size_t position) const { return b_.raw(region, element(position)); }

  void send_and_receive(const Phase& phase, Step& step) const {
    const size_t level = phase.level, radix = grid_.radix(level);
    for (size_t k = 1; k < radix; ++k) {
      const auto [to, from] = at_distance(k, digit(level), radix);
      if (phase.gathers) {
        if (gathers_at(level, to)) gather(step, peer(level, to), true, self_, level);
        if (gathers_at(level, digit(level)))
          gather(step, peer(level, from), false, peer(level, from), level);
      } else if (level == 0) {
        scatter_rows(step, to, from);
      } else {
        scatter(step, peer(level, to), peer(level, from), level);
      }
    }
  }

  void scatter_rows(Step& step, size_t to, size_t from) const {
    const bool is_raw = scattered(0) == Format::kRaw;
    push_row(step, peer(0, to), true, to,
             {is_raw ? raw(Region::kSend, row(to)) : out_[0][to].place, scattered(0)});
    push_row(step, peer(0, from), false, digit(0), in_[0][from]);
  }

  // Message of a whole row, of the ranks at a place.
  void push_row(Step& step, size_t peer, bool send, size_t place, const Body& body) const {
    b_.push(step.transfers, static_cast<int>(peer), send, body.place,
            count(row(place), grid_.block(0)), body.format);
  }

  void scatter(Step& step, size_t to, size_t from, size_t level) const {
    const Body& out = out_[level].front();
    push(step, to, true, out, section_for(to, level));
    push(step, from, false, in_[level][index(level, from)],
         whole(out.format, first(self_, level), grid_.block(level)));
  }

  // Section of what goes on from a level to the next one, for a member of the group there.
  Section section_for(size_t member, size_t level) const {
    return section(scattered(level), first(self_, level - 1), grid_.block(level - 1),
                   first(member, level), grid_.block(level));
  }

  // Copies a section of a body to another one.
  static void copy(Step& step, const Body& to, const Section& there, const Body& from,
                   const Section& section) {
    const auto copy = [&](size_t target, size_t source, size_t bytes) {
      if (bytes != 0) step.copies.push_back({at(to.place, target), at(from.place, source), bytes});
    };
    copy(there.codes, section.codes, section.code_bytes);
    copy(there.params, section.params, section.param_bytes);
  }

  size_t reduce(size_t level) {
    Step step = step_of_sums(level, done_);
    const size_t of = first(self_, level), shards = grid_.block(level);
    const bool is_last = level + 1 == levels_;
    if (level != 0) keep(level);
    Compute sum{.inputs = {},
                .target = (is_last ? own_ : out_[level + 1]).front().place,
                .target_format = summed(level),
                .averages = level == 0,
                .count = count(of, shards),
                .origin = element(of),
                .stage = static_cast<uint32_t>(level) + 1,
                .shared_draw = draw_of_sum(b_, level)};
    for (size_t i = 0; i < grid_.radix(level); ++i) {
      const bool is_raw = level == 0 && i == digit(0) && !repacks(0);
      sum.inputs.push_back(is_raw ? Input{raw(Region::kSend, of), Format::kRaw}
                                  : Input{in_[level][i].place, scattered(level)});
    }
    if (repacks(level)) sum.sums = sums_;
    b_.push(step.compute, std::move(sum));
    const size_t reduced = b_.add(std::move(step));
    return is_last ? place_own(reduced) : reduced;
  }

  // Puts what the rank itself adds to a level's sum where it lies as what it receives.
  void keep(size_t level) {
    Step step{.name = "keep", .lane = Lane::kDecode, .after = {done_}};
    copy(step, in_[level][index(level, self_)],
         whole(scattered(level), first(self_, level), grid_.block(level)), out_[level].front(),
         section_for(self_, level));
    b_.add(std::move(step));
  }

  // Puts the rank's own shard into its row.
  size_t place_own(size_t reduced) {
    Step step{.name = "keep", .lane = Lane::kDecode, .after = {reduced}};
    const size_t own = grid_.position(self_);
    copy(step, rows_[digit(0)], section(gathered_, row(digit(0)), grid_.block(0), own, 1),
         own_.front(), whole(gathered_, own, 1));
    const size_t placed = b_.add(std::move(step));
    return placed == kNone ? reduced : placed;
  }

  // Message of the shards that a rank has before it gathers on a level.
  void gather(Step& step, size_t peer, bool send, size_t of, size_t level) const {
    const size_t place = grid_.digit(of, 0);
    if (level == 0) return push_row(step, peer, send, place, rows_[place]);
    push(step, peer, send, rows_[place],
         section(gathered_, row(place), grid_.block(0), first(of, level), grid_.block(level)));
  }

  void decode() {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = {done_}};
    for (size_t place = 0; place < grid_.places(); ++place)
      b_.push(step.compute, {.inputs = {{rows_[place].place, gathered_}},
                             .target = raw(Region::kRecv, row(place)),
                             .target_format = Format::kRaw,
                             .count = count(row(place), grid_.block(0))});
    b_.add(std::move(step));
  }

  const size_t shard_;                       // max elements that a rank owns
  std::vector<std::vector<Body>> out_, in_;  // by level: to send, and received, by member
  std::vector<Body> own_, rows_;             // the own sum; all that is gathered, by place
  Place sums_;
  size_t scratch_bytes_ = 0;
  Builder b_;
  size_t done_ = kNone;  // the step before
};

Plan of_message(Collective collective, const char* algorithm, const Shape& s) {
  const Chunks chunks(s, shard_of_row(s), static_cast<size_t>(s.ranks), s.count, 1, 0,
                      quantum_of_levels(s));
  Grid grid = grid_of_groups(s.topology);
  if (chunks.count() > 1) return in_shards(collective, algorithm, s, std::move(grid));
  return InRows(collective, algorithm, s, std::move(grid)).build();
}

}  // namespace

size_t shard_of_row(const Shape& s) {
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
  return Chunks::round_up((s.count + ranks - 1) / ranks, quantum);
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
