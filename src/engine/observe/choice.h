// Choice of the calls that are measured: one of every n, at a place drawn anew for each n, so that
// it does not fall in step with a program that repeats itself.
#pragma once

#include <cstdint>

#include "codec/draw.h"

namespace terse {

// Returns true if call `number` of a communicator is chosen, a function of its arguments. n = 1
// chooses all calls, 0 none.
inline bool is_chosen(uint64_t n, uint64_t communicator, uint64_t number) {
  using codec::splitmix64;
  return n != 0 && number % n == splitmix64(splitmix64(communicator) + number / n) % n;
}

}  // namespace terse
