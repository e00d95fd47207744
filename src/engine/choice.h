// Which calls are measured: one of every n, at a place that is drawn anew for each n of them, so
// that the choice does not fall in step with a program that repeats itself.
#pragma once

#include <cstdint>

namespace terse {

// The finalizer of SplitMix64: a bijection that every bit of its argument changes.
constexpr uint64_t scatter_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Whether call `number` of a communicator is chosen: whoever asks the same gets the same answer.
// n = 1 chooses all calls, 0 none.
constexpr bool is_chosen(uint64_t n, uint64_t communicator, uint64_t number) {
  return n != 0 && number % n == scatter_bits(scatter_bits(communicator) + number / n) % n;
}

}  // namespace terse
