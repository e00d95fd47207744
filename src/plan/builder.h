// Shared parts of the builders: adding steps, and the places of shards.
#pragma once

#include <utility>

#include "plan/chunks.h"
#include "plan/native_traffic.h"
#include "plan/order.h"
#include "plan/plan.h"
#include "plan/shared_draw.h"

namespace terse::plan {

// Peers of a rank in order of distance, so that at any time the ranks send to different ones: at
// distance k a rank sends to `to` and receives from `from`.
struct Neighbours {
  size_t to, from;
};

inline Neighbours neighbours(const Shape& s, size_t distance) {
  const size_t ranks = s.ranks, self = s.rank;
  return {(self + distance) % ranks, (self + ranks - distance) % ranks};
}

// Assembles a plan of steps.
class Assembly {
 public:
  explicit Assembly(const char* algorithm) { plan_.algorithm = algorithm; }
  explicit Assembly(Plan plan) : plan_(std::move(plan)) {}  // clear() takes its steps out

  // Adds a step; returns its index, or kNone for a compute step with nothing to do. Communicate
  // steps stay, however empty, so that all ranks have as many. Left out of `after` are kNone and
  // what the step's lane and the others in `after` wait for already.
  size_t add(Step step) {
    const bool empty = step.compute.empty() && step.copies.empty() && step.fingerprints.empty();
    if (empty && step.lane != Lane::kCommunicate) return kNone;
    if (step.lane == Lane::kCommunicate) step.turn = communicates_++ % kCommunicateLanes;
    return insert(std::move(step));
  }

 protected:
  // Inserts a step as it is, without what `after` need not say.
  size_t insert(Step step) {
    std::erase(step.after, kNone);
    drop_implied(step);
    for (const Transfer& t : step.transfers)
      if (t.send && !t.native && !t.header) count(t);
    order_.add(step);
    plan_.steps.push_back(std::move(step));
    return plan_.steps.size() - 1;
  }

  // Takes the steps out, to insert them among others.
  std::vector<Step> clear() {
    plan_.wire_bytes = 0;
    plan_.wire_to.clear();
    return std::exchange(plan_.steps, {});
  }

  // Inserts steps that were taken out behind the present ones. Each waits for `first`, too.
  void insert_behind(std::vector<Step> steps, size_t first = kNone) {
    const size_t before = plan_.steps.size();
    for (Step& step : steps) {
      for (size_t& earlier : step.after) earlier += before;
      step.after.push_back(first);
      insert(std::move(step));
    }
  }

  // Ends the plan: the decode lane ends after all others, even with nothing to decode.
  Plan finish() {
    Step end{.name = "end", .lane = Lane::kDecode};
    for (size_t i = plan_.steps.size(); i-- > 0;)
      if (!order_.is_done(i, end)) end.after.push_back(i);
    if (!end.after.empty()) insert(std::move(end));
    return std::move(plan_);
  }

  Plan plan_;

 private:
  void count(const Transfer& sent) {
    const auto peer = static_cast<size_t>(sent.peer);
    plan_.wire_bytes += sent.bytes;
    if (plan_.wire_to.size() <= peer) plan_.wire_to.resize(peer + 1);
    plan_.wire_to[peer] += sent.bytes;
  }

  void drop_implied(Step& step) const {
    for (size_t i = 0; i < step.after.size();) {
      const auto at = step.after.begin() + static_cast<ptrdiff_t>(i);
      const size_t before = *at;
      step.after.erase(at);
      if (order_.is_done(before, step)) continue;
      step.after.insert(step.after.begin() + static_cast<ptrdiff_t>(i++), before);
    }
  }

  Order order_;
  size_t communicates_ = 0;
};

// Builds the plan of a collective.
class Builder : public Assembly {
 public:
  Builder(Collective collective, const char* algorithm, const Shape& shape)
      : Assembly(algorithm), collective_(collective), shape_(shape) {}

  // Adds a compute of a range that may be empty.
  static void push(std::vector<Compute>& computes, Compute compute) {
    if (compute.count != 0) computes.push_back(std::move(compute));
  }

  // Sends or receives `count` elements; no message for no elements.
  void push(std::vector<Transfer>& transfers, int peer, bool send, Place place, size_t count,
            Format format = Format::kPacked) const {
    if (count != 0) transfers.push_back({peer, send, place, shape_.bytes(format, count)});
  }

  // Returns the share of a draw if the format's errors cancel by it.
  std::optional<SharedDraw> if_shared(std::optional<SharedDraw> draw,
                                      Format format = Format::kPacked) const {
    return shape_.packing_of(format).shares_draws ? draw : std::nullopt;
  }

  // Place of raw elements of the caller's buffer.
  Place raw(Region region, size_t element) const {
    return {region, element * shape_.element_bytes};
  }

  // Copies the rank's own shard.
  void keep(size_t target, size_t source) {
    Step step{.name = "keep", .lane = Lane::kDecode};
    step.copies = {{raw(Region::kRecv, target), raw(Region::kSend, source),
                    shape_.count * shape_.element_bytes}};
    add(std::move(step));
  }

  // Agreement of all ranks on the largest parameters of a shared grid, in place.
  Native agreement(const Place& params, size_t bytes) const {
    const Element element = shape_.packing.shared_grid->params;
    return {.collective = Collective::kAllReduce,
            .send = params,
            .recv = params,
            .count = bytes / element_bytes(element, shape_.element_bytes),
            .element = element,
            .operation = Operation::kMax};
  }

  // Returns the finished plan.
  Plan take(const Chunks& chunks) { return take(chunks.scratch_bytes()); }
  Plan take(size_t scratch_bytes) {
    const Traits& t = traits(collective_);
    const size_t bytes = shape_.count * shape_.element_bytes;
    const Position at = shape_.position();
    plan_.scratch_bytes = scratch_bytes;
    plan_.buffers = {{bytes * extent(t.send, at), bytes * extent(t.recv, at)}};
    plan_.raw_bytes = raw_bytes(collective_, bytes, at);
    plan_.native = native_traffic(plan_.steps, shape_);
    return finish();
  }

 private:
  const Collective collective_;
  const Shape& shape_;
};

}  // namespace terse::plan
