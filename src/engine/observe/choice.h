// Which calls are measured: one of every n, at a place that is drawn anew for each n of them, so
// that the choice does not fall in step with a program that repeats itself.
#pragma once

#include <cstdint>

#include "codec/draw.h"

namespace terse {

// Whether call `number` of a communicator is chosen: whoever asks the same gets the same answer.
// n = 1 chooses all calls, 0 none.
inline bool is_chosen(uint64_t n, uint64_t communicator, uint64_t number) {
  using codec::splitmix64;
  return n != 0 && number % n == splitmix64(splitmix64(communicator) + number / n) % n;
}

}  // namespace terse
