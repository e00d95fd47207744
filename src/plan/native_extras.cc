#include "plan/native_extras.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/builder.h"

namespace terse::plan {
namespace {

// Cost of one more native call in bytes: a few microseconds.
constexpr size_t kBytesACall = 16 << 10;

// Part of a range in one rank's shard; or the range, if the message has no shards.
struct Segment {
  size_t owner;       // of the shard
  size_t in_message;  // its first element
  size_t in_shard;
  size_t in_row;  // where the segments of its shard lie side by side
  size_t count;
};

// Segments of each shard side by side: a row of elements, all as long as the longest.
struct Rows {
  std::vector<Segment> segments;
  std::vector<size_t> lengths;  // by shard
  size_t longest = 0;

  size_t padding() const {
    size_t sum = 0;
    for (const size_t length : lengths) sum += longest - length;
    return sum;
  }
};

Rows cut(std::span<const Range> ranges, size_t shard, size_t shards) {
  Rows rows{.segments = {}, .lengths = std::vector<size_t>(shards)};
  for (const Range& range : ranges)
    for (size_t first = range.first, end = first + range.count; first < end;) {
      const size_t owner = first / shard;
      const size_t count = std::min(end, (owner + 1) * shard) - first;
      size_t& length = rows.lengths[owner];
      rows.segments.push_back({owner, first, first - owner * shard, length, count});
      length += count;
      first += count;
    }
  rows.longest = std::ranges::max(rows.lengths);
  // Copies equally far apart in all shards are neighbours.
  std::ranges::sort(rows.segments, {},
                    [](const Segment& s) { return std::pair(s.in_shard, s.owner); });
  return rows;
}

// Puts steps before those of a plan, and one behind them.
class Around : Assembly {
 public:
  Around(Plan plan, Collective collective, const Shape& shape)
      : Assembly(std::move(plan)), collective_(collective), shape_(shape) {}

  Plan build(const NativeExtras& extras) {
    if (extras.learns) learn();
    if (extras.verified) verify();
    if (!extras.exact.empty()) keep(extras.exact);
    if (!native_.natives.empty()) first_.push_back(std::move(native_));
    if (first_.empty()) return std::move(plan_);
    std::vector<Step> steps = clear();
    plan_.native += native_traffic(first_, shape_);
    // Each step waits for the one before it, and everything else for the last: the plan may change
    // what it sends, and is timed from its own first step on.
    for (Step& step : first_) {
      if (!plan_.steps.empty()) step.after = {plan_.steps.size() - 1};
      insert(std::move(step));
    }
    const size_t ready = plan_.steps.size() - 1;
    insert_behind(std::move(steps), ready);
    if (!last_.copies.empty()) {
      last_.after.push_back(ready);
      insert(std::move(last_));
    }
    return finish();
  }

 private:
  Place at(Region region, size_t element) const { return {region, element * shape_.element_bytes}; }

  // Learns behind the plan's own scratch. All ranks end with the levels of one, in case their
  // machines differ.
  void learn() {
    using enum Learn::Stage;
    plan_.scratch_bytes = Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment);
    const Place state{Region::kScratch, plan_.scratch_bytes};
    plan_.scratch_bytes += Learn::kStateBytes;
    learn(kWidest, state);
    agree(Collective::kAllReduce, state, 1, Element::kUint32, Operation::kMax);
    learn(kHistogram, state);
    agree(Collective::kAllReduce, {state.region, state.offset + Learn::kBinsAt}, Learn::kBins,
          Element::kUint64, Operation::kSum);
    learn(kFit, state);
    agree(Collective::kBroadcast, {Region::kCodebook, 0}, plan_.codebook_bytes, Element::kUint8,
          Operation::kOfCall);
  }

  void learn(Learn::Stage stage, const Place& state) {
    const size_t count = plan_.buffers.front().send_bytes / shape_.element_bytes;
    Step step{.name = "learn", .lane = Lane::kEncode, .is_extra = true};
    step.learns.push_back({stage, count, state});
    first_.push_back(std::move(step));
  }

  void agree(Collective collective, const Place& place, size_t count, Element element,
             Operation operation) {
    natively("agree", {.collective = collective,
                       .send = place,
                       .recv = place,
                       .count = count,
                       .element = element,
                       .operation = operation});
  }

  void natively(const char* name, Native native) {
    Step step{.name = name, .lane = Lane::kCommunicate, .is_extra = true};
    step.natives.push_back(native);
    first_.push_back(std::move(step));
  }

  // Runs natively in a step of its own, to be timed from when all ranks have come: the following
  // steps wait for no late rank.
  void verify() {
    plan_.exact_bytes = plan_.buffers.front().recv_bytes;
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, Chunks::kAlignment);
    const Place anywhere{Region::kScratch, 0};
    natively("meet", {.collective = Collective::kAllReduce,
                      .send = anywhere,
                      .recv = anywhere,
                      .count = 1,
                      .element = Element::kUint32,
                      .operation = Operation::kMax,
                      .meets = true});
    natively("verify", {.collective = collective_,
                        .send = {Region::kSend, 0},
                        .recv = {Region::kExact, 0},
                        .count = shape_.count,
                        .root = shape_.root});
  }

  // Keeps ranges behind the plan's own scratch.
  void keep(std::span<const Range> ranges) {
    plan_.scratch_bytes = Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment);
    const Rows rows = cut(ranges, shape_.count, shards(collective_, shape_.ranks));
    const size_t calls_saved = rows.segments.size() - 1;
    if (calls_saved > 0 && rows.padding() * shape_.element_bytes <= calls_saved * kBytesACall)
      return keep_together(rows);
    for (const Segment& segment : rows.segments) keep(segment);
  }

  // Keeps a segment that all ranks have or get; or that its owner alone has, or gets.
  void keep(const Segment& s) {
    const Traits& t = traits(collective_);
    const Place result{Region::kScratch, plan_.scratch_bytes};
    plan_.scratch_bytes += s.count * shape_.element_bytes;
    native_.natives.push_back({.collective = t.recv.per_rank   ? Collective::kBroadcast
                                             : t.send.per_rank ? Collective::kReduce
                                                               : collective_,
                               .send = sent(s.owner, s.in_shard),
                               .recv = result,
                               .count = s.count,
                               .root = static_cast<int>(s.owner)});
    restore(s, result);
  }

  // Keeps the rows of all shards by one call of the same kind.
  void keep_together(const Rows& rows) {
    const Place begin{Region::kScratch, plan_.scratch_bytes};
    plan_.scratch_bytes += rows.lengths.size() * rows.longest * shape_.element_bytes;
    const auto at = [&](size_t owner, size_t element) -> Place {
      return {begin.region, begin.offset + (owner * rows.longest + element) * shape_.element_bytes};
    };
    Step pack{.name = "pack", .lane = Lane::kEncode, .is_extra = true};
    const auto copy = [&](const Place& target, const Place& source, size_t count) {
      if (count != 0) pack.copies.push_back({target, source, count * shape_.element_bytes});
    };
    for (const Segment& s : rows.segments)
      if (sends(s.owner)) copy(at(s.owner, s.in_row), sent(s.owner, s.in_shard), s.count);
    // Padding of a row is not read.
    for (size_t owner = 0; owner < rows.lengths.size(); ++owner)
      if (sends(owner))
        copy(at(owner, rows.lengths[owner]), sent(owner, 0), rows.longest - rows.lengths[owner]);
    first_.push_back(std::move(pack));
    const Traits& t = traits(collective_);
    const Place own = at(t.send.per_rank || t.recv.per_rank ? shape_.rank : 0, 0);
    native_.natives.push_back({.collective = collective_,
                               .send = t.recv.per_rank ? own : begin,
                               .recv = t.send.per_rank ? own : begin,
                               .count = rows.longest});
    for (const Segment& s : rows.segments) restore(s, at(s.owner, s.in_row));
  }

  void restore(const Segment& s, const Place& result) {
    const Traits& t = traits(collective_);
    if (t.send.per_rank && !is_mine(s.owner)) return;
    last_.copies.push_back({at(Region::kRecv, t.recv.per_rank ? s.in_message : s.in_shard), result,
                            s.count * shape_.element_bytes});
  }

  // Returns true if this rank sends anything of a shard; and gives the place of its elements.
  bool sends(size_t owner) const { return !traits(collective_).recv.per_rank || is_mine(owner); }
  Place sent(size_t owner, size_t element) const {
    const bool has_all = traits(collective_).send.per_rank;
    return at(Region::kSend, has_all ? owner * shape_.count + element : element);
  }

  bool is_mine(size_t owner) const { return owner == static_cast<size_t>(shape_.rank); }

  const Collective collective_;
  const Shape& shape_;
  std::vector<Step> first_;
  Step native_{.name = "native", .lane = Lane::kCommunicate, .is_extra = true};
  Step last_{.name = "restore", .lane = Lane::kDecode, .is_extra = true};
};

}  // namespace

bool may_keep_exact(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kAllGather ||
         c == Collective::kReduceScatter;
}

Plan with(Plan plan, Collective collective, const Shape& shape, const NativeExtras& extras) {
  return Around(std::move(plan), collective, shape).build(extras);
}

}  // namespace terse::plan
