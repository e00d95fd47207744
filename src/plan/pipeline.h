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

// Calls begin(chunk) for the chunks in their order, and exchange(turns) for each step, a
// std::span<const Turn> of the phases in their order. A phase of a chunk goes along with the phase
// before of a later chunk: there is that long to compute what comes between, while the links stay
// busy. A chunk's slot is free again after its last phase. `phases` >= 2.
template <class Begin, class Exchange>
void pipeline(const Chunks& chunks, size_t phases, const Begin& begin, const Exchange& exchange) {
  const size_t count = chunks.count();
  const size_t lag = std::min<size_t>(2, (chunks.slots() - 1) / (phases - 1));
  std::vector<Turn> turns;
  for (size_t t = 0; t < count + lag * (phases - 1); ++t) {
    if (t < count) begin(t);
    turns.clear();
    for (size_t k = 0; k < phases; ++k)
      if (t >= k * lag && t - k * lag < count) turns.push_back({k, t - k * lag});
    const size_t at_once = lag == 0 ? 1 : turns.size();
    for (size_t i = 0; i < turns.size(); i += at_once)
      exchange(std::span<const Turn>(turns).subspan(i, at_once));
  }
}

}  // namespace terse::plan
