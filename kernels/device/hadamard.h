// The Walsh-Hadamard transform of 32 neighbours (src/codec/FORMAT.md, section 4): the vectors of 8
// of four neighbouring lanes.
#pragma once

#include "codec/portable.h"
#include "kernels/arch/arch.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

static_assert(codec::kHadamard == 4 * kVec8);

// All lanes of the warp take part; the four of which `whole` is false have what is left over.
template <bool back>
TERSE_DEVICE void hadamard(float (&x)[kVec8], bool whole) {
  constexpr float kMixed = back ? 1.0f : 1.0f / codec::kHadamard;
  constexpr float kLeftOver = back ? 1 / codec::kLeftOver : codec::kLeftOver;
  const float factor = whole ? kMixed : kLeftOver;
  float y[kVec8];
  TERSE_UNROLL
  for (uint32_t i = 0; i < kVec8; ++i) y[i] = x[i] = codec::mul(x[i], factor);
  TERSE_UNROLL
  for (uint32_t apart = 1; apart < kVec8; apart *= 2) {
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i) {
      if (i / apart % 2 != 0) continue;
      const float low = y[i], high = y[i + apart];
      y[i] = codec::add(low, high);
      y[i + apart] = codec::add(low, -high);
    }
  }
  TERSE_UNROLL
  for (uint32_t lanes = 1; lanes < codec::kHadamard / kVec8; lanes *= 2) {
    const bool high = simt::thread_index() & lanes;
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i) {
      const float other = simt::shuffle_xor(y[i], lanes);
      y[i] = codec::add(other, high ? -y[i] : y[i]);
    }
  }
  TERSE_UNROLL
  for (uint32_t i = 0; i < kVec8; ++i) x[i] = whole ? y[i] : x[i];
}

}  // namespace terse::kernels
