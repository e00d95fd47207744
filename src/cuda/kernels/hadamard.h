// The Walsh-Hadamard transform of 32 neighbours (src/codec/FORMAT.md, section 4): the octets of
// four neighbouring lanes.
#pragma once

#include "batch.h"
#include "codec/portable.h"
#include "leaf.h"

namespace terse::kernels {

static_assert(codec::kHadamard == 4 * kOctet);

// All lanes of the warp take part; the four of which `whole` is false have what is left over.
template <bool back>
TERSE_DEVICE void hadamard(float (&x)[kOctet], bool whole) {
  constexpr float kMixed = back ? 1.0f : 1.0f / codec::kHadamard;
  constexpr float kLeftOver = back ? 1 / codec::kLeftOver : codec::kLeftOver;
  const float factor = whole ? kMixed : kLeftOver;
  float y[kOctet];
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i) y[i] = x[i] = codec::mul(x[i], factor);
  TERSE_UNROLL
  for (uint32_t apart = 1; apart < kOctet; apart *= 2) {
    TERSE_UNROLL
    for (uint32_t i = 0; i < kOctet; ++i) {
      if (i / apart % 2 != 0) continue;
      const float low = y[i], high = y[i + apart];
      y[i] = codec::add(low, high);
      y[i + apart] = codec::add(low, -high);
    }
  }
  TERSE_UNROLL
  for (uint32_t lanes = 1; lanes < codec::kHadamard / kOctet; lanes *= 2) {
    const bool high = simt::thread_index() & lanes;
    TERSE_UNROLL
    for (uint32_t i = 0; i < kOctet; ++i) {
      const float other = simt::shuffle_xor(y[i], lanes);
      y[i] = codec::add(other, high ? -y[i] : y[i]);
    }
  }
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i) x[i] = whole ? y[i] : x[i];
}

}  // namespace terse::kernels
