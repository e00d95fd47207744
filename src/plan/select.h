// Which algorithm does a call: a pure function of what all ranks know.
#pragma once

#include <cstddef>

#include "plan/plan.h"

namespace terse::plan {

enum class Wish : unsigned char { kAuto, kOneShot, kTwoShot };

struct Selection {
  Plan (*build)(const Shape& shape);
  const char* reason;
};

Selection select(Collective collective, const Shape& shape, Wish wish);

}  // namespace terse::plan
