#include "plan/beside.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/builder.h"

namespace terse::plan {
namespace {

// A range that is one native call: of one rank's shard, where the message has shards.
struct Segment {
  size_t owner;       // of the shard
  size_t in_message;  // its first element
  size_t in_shard;
  size_t count;
};

std::vector<Segment> cut(std::span<const Range> ranges, size_t shard) {
  std::vector<Segment> segments;
  for (const Range& range : ranges)
    for (size_t first = range.first, end = first + range.count; first < end;) {
      const size_t owner = first / shard;
      const size_t count = std::min(end, (owner + 1) * shard) - first;
      segments.push_back({owner, first, first - owner * shard, count});
      first += count;
    }
  return segments;
}

// Puts steps before those of a plan, and one behind them.
class Around : Assembly {
 public:
  Around(Plan plan, Collective collective, const Shape& shape)
      : Assembly(std::move(plan)), collective_(collective), shape_(shape) {}

  Plan build(const Beside& beside) {
    if (beside.learns) learn();
    if (beside.verified) verify();
    if (!beside.exact.empty()) keep(beside.exact);
    if (!native_.natives.empty()) first_.push_back(std::move(native_));
    if (first_.empty()) return std::move(plan_);
    std::vector<Step> steps = clear();
    plan_.native += native_traffic(first_, shape_);
    // Each waits for the one before it, and everything else for the last: the plan may change what
    // it sends, and is timed from its own first step on.
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

  // Behind the plan's own scratch. All ranks end with the levels of one, in case their machines
  // differ.
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
    Step step{.name = "learn", .lane = Lane::kEncode, .beside = true};
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
    Step step{.name = name, .lane = Lane::kCommunicate, .beside = true};
    step.natives.push_back(native);
    first_.push_back(std::move(step));
  }

  // A step of its own, to be timed: from when all ranks have come, for what follows it does not
  // wait for a late one either.
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

  // Behind the plan's own scratch.
  void keep(std::span<const Range> ranges) {
    plan_.scratch_bytes = Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment);
    for (const Segment& segment : cut(ranges, shape_.count)) keep(segment);
  }

  // All ranks have the segment or get it; or its owner alone has it, or gets it.
  void keep(const Segment& s) {
    const Traits& t = traits(collective_);
    const size_t bytes = s.count * shape_.element_bytes;
    const Place result{Region::kScratch, plan_.scratch_bytes};
    plan_.scratch_bytes += bytes;
    native_.natives.push_back(
        {.collective = t.recv.per_rank   ? Collective::kBroadcast
                       : t.send.per_rank ? Collective::kReduce
                                         : collective_,
         .send = at(Region::kSend, t.send.per_rank ? s.in_message : s.in_shard),
         .recv = result,
         .count = s.count,
         .root = static_cast<int>(s.owner)});
    const bool is_mine = s.owner == static_cast<size_t>(shape_.rank);
    if (t.send.per_rank && !is_mine) return;
    last_.copies.push_back(
        {at(Region::kRecv, t.recv.per_rank ? s.in_message : s.in_shard), result, bytes});
  }

  const Collective collective_;
  const Shape& shape_;
  std::vector<Step> first_;
  Step native_{.name = "native", .lane = Lane::kCommunicate, .beside = true};
  Step last_{.name = "restore", .lane = Lane::kDecode, .beside = true};
};

}  // namespace

bool may_keep_exact(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kAllGather ||
         c == Collective::kReduceScatter;
}

Plan with(Plan plan, Collective collective, const Shape& shape, const Beside& beside) {
  return Around(std::move(plan), collective, shape).build(beside);
}

}  // namespace terse::plan
