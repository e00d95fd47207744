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

constexpr size_t codebook_levels(int bits) { return size_t{1} << bits; }
constexpr size_t codebook_floats(int bits) { return 3 * codebook_levels(bits); }
constexpr size_t codebook_bytes(int bits) { return codebook_floats(bits) * sizeof(float); }

// Level i of those that are equally far from each other.
TERSE_INLINE float uniform_level(size_t i, int bits) {
  return div(static_cast<float>(i), static_cast<float>(codebook_levels(bits) - 1));
}

// What follows from the levels of a table: entry i of the other two parts.
TERSE_INLINE void complete_codebook(float* table, int bits, size_t i) {
  const size_t n = codebook_levels(bits);
  table[n + i] = i == 0 ? 0.0f : mul(0.5f, add(table[i - 1], table[i]));
  const float distance = i + 1 < n ? add(table[i + 1], -table[i]) : 0.0f;
  table[2 * n + i] = distance > 0 ? div(1.0f, distance) : 0.0f;
}

}  // namespace terse::codec
