// The Walsh-Hadamard transform of 32 neighbours on the host (FORMAT.md, section 4).
#pragma once

#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

// Half of them, in as many registers as the machine takes.
using HadamardVector [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
static_assert(kHadamard * sizeof(float) == 2 * sizeof(HadamardVector));

// Butterflies of neighbours, then of those twice as far apart, and so on: of each pair the sum
// takes the lower place and the difference the higher one.
TERSE_INLINE void hadamard_half(HadamardVector& v) {
  constexpr HadamardVector kSigns[] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                       {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                       {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                       {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};
  // clang-format off
  v = __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14) +
      v * kSigns[0];
  v = __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13) +
      v * kSigns[1];
  v = __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11) +
      v * kSigns[2];
  v = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7) +
      v * kSigns[3];
  // clang-format on
}

// In place, of x times `factor`: which comes first, so that sums stay within fp32.
TERSE_INLINE void hadamard_group(float factor, float* x) {
  HadamardVector* const v = reinterpret_cast<HadamardVector*>(x);
  HadamardVector low = v[0] * factor, high = v[1] * factor;
  hadamard_half(low);
  hadamard_half(high);
  v[0] = low + high;
  v[1] = low - high;
}

}  // namespace terse::codec
