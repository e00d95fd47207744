// Mistakes made on purpose at a call in kernel source: tests of a kernel are sound if they notice
// each of them.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "site.h"

namespace terse::simt {

enum class Mistake {
  kNoBarrier,      // sync_block or sync_warp is left out
  kWrongLane,      // a shuffle reads from the neighbour of the lane that it should read from
  kStoresFurther,  // the element after the one that it should
  kLoadsFurther,
  kNoRelease,  // a flag is given a value that says nothing of what was before
  kNoAcquire,  // a flag is looked at as if it said nothing
};

// A mistake at a call of a function of arch.h.
struct Plant {
  Mistake mistake;
  Site site;

  friend bool operator==(const Plant&, const Plant&) = default;
  friend auto operator<=>(const Plant&, const Plant&) = default;
};

// "the barrier at thread_rows.h:12 is left out"
std::string to_string(const Plant& plant);

// Asked whenever a thread comes to a call at which a mistake can be made: whether it makes it. One
// that always says no finds out which there are.
using Planter = std::function<bool(const Plant& plant, uint32_t thread)>;

}  // namespace terse::simt
