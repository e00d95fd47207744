// The levels of a learned codec as coders and decoders read them: a table of fp32 numbers in the
// machine's memory, of 3 * 2^bits of them.
//
//   levels    2^bits, ascending, on [0, 1]: where an element may lie on its block's
//             [smallest, largest]
//   middles   of each level and the one before it; of the first one, 0
//   inverses  of the distance from each level to the next one; 0 where there is none, and of the
//             last one
#pragma once

#include <cstddef>

#include "codec/portable.h"

namespace terse::codec {

TERSE_INLINE constexpr size_t codebook_levels(int bits) { return size_t{1} << bits; }
TERSE_INLINE constexpr size_t codebook_floats(int bits) { return 3 * codebook_levels(bits); }
TERSE_INLINE constexpr size_t codebook_bytes(int bits) {
  return codebook_floats(bits) * sizeof(float);
}

// Level i of those that are equally far from each other.
TERSE_INLINE float uniform_level(size_t i, int bits) {
  return div(static_cast<float>(i), static_cast<float>(codebook_levels(bits) - 1));
}

TERSE_INLINE float middle_of(float before, float level) { return mul(0.5f, add(before, level)); }

TERSE_INLINE float inverse_distance(float level, float next) {
  const float distance = add(next, -level);
  return distance > 0 ? div(1.0f, distance) : 0.0f;
}

// Derives entry i of the table's other two parts from the levels.
TERSE_INLINE void complete_codebook(float* table, int bits, size_t i) {
  const size_t n = codebook_levels(bits);
  table[n + i] = i == 0 ? 0.0f : middle_of(table[i - 1], table[i]);
  table[2 * n + i] = i + 1 < n ? inverse_distance(table[i], table[i + 1]) : 0.0f;
}

// Entry i of the table whose levels are equally far from each other.
TERSE_INLINE float uniform_entry(size_t i, int bits) {
  const size_t n = codebook_levels(bits), k = i % n;
  if (i < n) return uniform_level(k, bits);
  if (i < 2 * n)
    return k == 0 ? 0.0f : middle_of(uniform_level(k - 1, bits), uniform_level(k, bits));
  return k + 1 < n ? inverse_distance(uniform_level(k, bits), uniform_level(k + 1, bits)) : 0.0f;
}

// The whole of it, in the host's memory, for good.
const float* uniform_codebook(int bits);

// How many of n ascending numbers, less the first one, are not above v; n is a power of two.
template <class Numbers>
TERSE_INLINE uint32_t count_not_above(float v, const Numbers& numbers, uint32_t n) {
  uint32_t count = 0;
  for (uint32_t step = n / 2; step > 0; step /= 2) count += v >= numbers[count + step] ? step : 0;
  return count;
}

}  // namespace terse::codec
