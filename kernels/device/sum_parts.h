// The sum of a check's parts, by which draws change with what is sent.
#pragma once

#include "kernels/arch/arch.h"

namespace terse::kernels {

TERSE_DEVICE uint64_t shuffle_xor_words(uint64_t value, uint32_t distance) {
  const uint32_t low = simt::shuffle_xor(static_cast<uint32_t>(value), distance);
  const uint32_t high = simt::shuffle_xor(static_cast<uint32_t>(value >> 32), distance);
  return low | uint64_t{high} << 32;
}

// Returns the sum on all lanes of a warp, which takes part as a whole.
TERSE_DEVICE uint64_t sum_parts(const uint64_t* parts, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t part = simt::thread_index() % simt::kWarp; part < count; part += simt::kWarp)
    sum += simt::load(&parts[part]);
  TERSE_UNROLL
  for (uint32_t distance = simt::kWarp / 2; distance != 0; distance /= 2)
    sum += shuffle_xor_words(sum, distance);
  return sum;
}

}  // namespace terse::kernels
