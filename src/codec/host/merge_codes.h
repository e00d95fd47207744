// A part of host_ops.cc: two codes to one, of which all ranks have the grid.
#pragma once

#include "codec/block.h"
#include "codec/host/elements.h"
#include "codec/host/geometric_random.h"
#include "codec/host/random.h"

namespace terse::codec::TERSE_ISA {
namespace {

template <class Codec, Rounding rounding>
void merge(const uint8_t* a, const uint8_t* b, size_t n, const Draw& draw, uint64_t first,
           uint8_t* out) {
  constexpr size_t kAtOnce = 512;
  uint16_t random[kAtOnce];
  uint8_t merged[kAtOnce];  // apart from what is read
  for (size_t i = 0; i < n; i += kAtOnce) {
    const size_t some = block_at(i, n, kAtOnce);
    if constexpr (rounding == Rounding::kStochastic) {
      uint8_t heads[kAtOnce];
      draw_elements(draw, first + i, some, random);
      count_heads(random, some, heads);
      for (size_t k = 0; k < some; ++k) merged[k] = Codec::merge(a[i + k], b[i + k], heads[k]);
    } else {
      for (size_t k = 0; k < some; ++k) merged[k] = Codec::merge(a[i + k], b[i + k], 0);
    }
    std::memcpy(out + i, merged, some);
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
