// How the phases of a message's chunks go along with each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plan/chunks.h"

namespace terse::plan {

// A phase of a chunk.
struct Turn {
  size_t phase, chunk;
};

// How many chunks later a phase goes along with the one before it, so that each chunk has a slot
// from its first phase to its last: 0, 1 or 2.
inline size_t lag_of(const Chunks& chunks, size_t phases) {
  const size_t slots = chunks.slots(), least = slots == chunks.count() ? 1 : 0;
  return std::clamp<size_t>((slots - 1) / (phases - 1), least, 2);
}

// Calls begin(chunk) for the chunks in their order, and exchange(turns) for each step, a
// std::span<const Turn> of the phases in their order. A phase of a chunk goes along with the phase
// before of the chunk `lag` later: there is that long to compute what comes between, while the
// links stay busy. Without a lag a chunk's phases follow each other. `phases` >= 2.
template <class Begin, class Exchange>
void pipeline(size_t chunks, size_t phases, size_t lag, const Begin& begin,
              const Exchange& exchange) {
  std::vector<Turn> turns;
  for (size_t t = 0; t < chunks + lag * (phases - 1); ++t) {
    if (t < chunks) begin(t);
    turns.clear();
    for (size_t k = 0; k < phases; ++k)
      if (t >= k * lag && t - k * lag < chunks) turns.push_back({k, t - k * lag});
    const size_t at_once = lag == 0 ? 1 : turns.size();
    for (size_t i = 0; i < turns.size(); i += at_once)
      exchange(std::span<const Turn>(turns).subspan(i, at_once));
  }
}

}  // namespace terse::plan
