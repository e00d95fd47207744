// What the builders share: adding steps, and the places of pieces.
#pragma once

#include <utility>

#include "plan/chunks.h"
#include "plan/order.h"
#include "plan/plan.h"

namespace terse::plan {

// The peers of a rank in the order of distance, so that at any time the ranks send to different
// ones: at distance k a rank sends to `to` and receives from `from`.
struct Neighbours {
  size_t to, from;
};

inline Neighbours neighbours(const Shape& s, size_t distance) {
  const size_t ranks = s.ranks, self = s.rank;
  return {(self + distance) % ranks, (self + ranks - distance) % ranks};
}

class Builder {
 public:
  explicit Builder(const char* algorithm, const Shape& shape) : shape_(shape) {
    plan_.algorithm = algorithm;
  }

  // Adds a step; returns its index, or kNone for a compute step with nothing to do. Communicate
  // steps stay, however empty, so that all ranks have as many. Left out of `after` are kNone and
  // what the step's lane and the others in `after` wait for already.
  size_t add(Step step) {
    if (step.compute.empty() && step.lane != Lane::kCommunicate) return kNone;
    if (step.lane == Lane::kCommunicate) step.turn = communicates_++ % kCommunicateLanes;
    std::erase(step.after, kNone);
    drop_implied(step);
    for (const Transfer& t : step.transfers)
      if (t.send) plan_.wire_bytes += t.bytes;
    order_.add(step);
    plan_.steps.push_back(std::move(step));
    return plan_.steps.size() - 1;
  }

  // Adds a compute of a range that may be empty.
  static void push(std::vector<Compute>& computes, Compute compute) {
    if (compute.count != 0) computes.push_back(std::move(compute));
  }

  // Sends or receives the packed form of `count` elements; no elements, no message.
  void push(std::vector<Transfer>& transfers, int peer, bool send, Place place,
            size_t count) const {
    if (count != 0) transfers.push_back({peer, send, place, shape_.packing.bytes(count)});
  }

  // Raw elements of the caller's buffer.
  Place raw(Region region, size_t element) const {
    return {region, element * shape_.element_bytes};
  }

  // The finished plan. `send` and `recv` are elements of the caller's buffers.
  Plan take(const Chunks& chunks, size_t send, size_t recv, size_t raw_bytes) {
    plan_.scratch_bytes = chunks.scratch_bytes();
    plan_.send_bytes = send * shape_.element_bytes;
    plan_.recv_bytes = recv * shape_.element_bytes;
    plan_.raw_bytes = raw_bytes;
    return std::move(plan_);
  }

 private:
  void drop_implied(Step& step) const {
    for (size_t i = 0; i < step.after.size();) {
      const auto at = step.after.begin() + static_cast<ptrdiff_t>(i);
      const size_t before = *at;
      step.after.erase(at);
      if (order_.is_done(before, step)) continue;
      step.after.insert(step.after.begin() + static_cast<ptrdiff_t>(i++), before);
    }
  }

  const Shape& shape_;
  Plan plan_;
  Order order_;
  size_t communicates_ = 0;
};

}  // namespace terse::plan
