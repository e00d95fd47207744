// The Walsh-Hadamard transform of 32 neighbours on the host (FORMAT.md, section 4).
#pragma once

#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

// Half of them, in as many registers as the machine takes.
using HadamardVector [[gnu::vector_size(64), gnu::aligned(1), gnu::may_alias]] = float;
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

// The only NaN that is ever written (FORMAT.md, section 1).
TERSE_INLINE void canonicalize(HadamardVector& v) {
  v = v == v ? v : HadamardVector{} + bits_float(kNanBits);
}

// Of elements times `factor`: which comes first, so that sums stay within fp32. May be in place.
TERSE_INLINE void hadamard_group(float factor, const void* in, void* out) {
  const HadamardVector* const x = static_cast<const HadamardVector*>(in);
  HadamardVector* const y = static_cast<HadamardVector*>(out);
  HadamardVector low = x[0] * factor, high = x[1] * factor;
  hadamard_half(low);
  hadamard_half(high);
  HadamardVector sum = low + high, difference = low - high;
  canonicalize(sum);
  canonicalize(difference);
  y[0] = sum;
  y[1] = difference;
}

}  // namespace terse::codec
