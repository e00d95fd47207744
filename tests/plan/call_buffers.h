// The buffers of all ranks of one call, by rank: apart, or in place as NCCL has it.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "plan/plan.h"

namespace terse::plan {

class CallBuffers {
 public:
  // Of random numbers below 1000 to send; where results come is -1.
  CallBuffers(Collective collective, const Shape& shape, bool in_place, std::mt19937& random) {
    const Traits& t = traits(collective);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Position at{shape.ranks, rank, shape.root};
      std::vector<int32_t> values(extent(t.send, at) * shape.count);
      for (int32_t& x : values) x = static_cast<int32_t>(random() % 1000);
      input.push_back(values);
      results.push_back(extent(t.recv, at) * shape.count);
      place(t, rank * shape.count, in_place, std::move(values));
    }
  }
  CallBuffers(CallBuffers&&) = default;  // no copies: the pointers are into its memory

  std::vector<std::vector<int32_t>> input;  // what is sent, as it was before the call
  std::vector<size_t> results;              // elements of a rank's result
  std::vector<const int32_t*> send;
  std::vector<int32_t*> recv;

 private:
  // `own`: where the rank's own part begins, in a buffer with a part for each.
  void place(const Traits& t, size_t own, bool in_place, std::vector<int32_t> values) {
    std::vector<int32_t> result(results.back(), -1);
    int32_t *in = values.data(), *out = result.data();
    if (in_place && !values.empty() && !result.empty()) {
      // The larger buffer holds the smaller one, at the rank's own part.
      if (t.recv.per_rank && !t.send.per_rank) {
        std::ranges::copy(values, out + own);
        in = out + own;
      } else {
        out = in + (t.send.per_rank && !t.recv.per_rank ? own : 0);
      }
    }
    send.push_back(in);
    recv.push_back(out);
    memory_.push_back(std::move(values));  // which leaves the elements where they are
    memory_.push_back(std::move(result));
  }

  std::vector<std::vector<int32_t>> memory_;
};

}  // namespace terse::plan
