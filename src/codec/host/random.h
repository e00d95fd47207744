// A part of host_ops.cc: the random numbers of many elements at a time.
#pragma once

#include "codec/draw.h"
#include "codec/host/registers.h"

namespace terse::codec::TERSE_ISA {
namespace {

// The 64-bit lanes of a register. A word of a Philox block lies in the low half of a lane; the high
// half does not matter, for products are of the low halves.
constexpr size_t kLanes = kRegisterBytes / 8;
using Lanes = uint64_t __attribute__((vector_size(kRegisterBytes)));

#if defined(__SSE2__)
using LongLanes = long long __attribute__((vector_size(kRegisterBytes)));

TERSE_INLINE Lanes multiply_low(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(mul_epu32)(LongLanes(a), LongLanes(b)));
}

// The even lanes of two registers, in turns, and the odd ones.
TERSE_INLINE Lanes even_lanes(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(unpacklo_epi64)(LongLanes(a), LongLanes(b)));
}
TERSE_INLINE Lanes odd_lanes(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(unpackhi_epi64)(LongLanes(a), LongLanes(b)));
}
#else
TERSE_INLINE Lanes multiply_low(Lanes a, Lanes b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
TERSE_INLINE Lanes even_lanes(Lanes a, Lanes b) { return Lanes{a[0], b[0]}; }
TERSE_INLINE Lanes odd_lanes(Lanes a, Lanes b) { return Lanes{a[1], b[1]}; }
#endif

// The counters of kLanes Philox blocks (philox.h), and then their words.
struct Blocks {
  Lanes c0, c1, c2, c3;

  TERSE_INLINE void round(uint32_t key0, uint32_t key1) {
    const Lanes p0 = multiply_low(c0, Lanes{} + kPhiloxFactor0);
    const Lanes p1 = multiply_low(c2, Lanes{} + kPhiloxFactor1);
    c0 = p1 >> 32 ^ c1 ^ key0;
    c2 = p0 >> 32 ^ c3 ^ key1;
    c1 = p1;
    c3 = p0;
  }
};

// Even lanes hold the first half of the blocks and odd ones the second, each in their order: so
// store_words() has them side by side.
TERSE_INLINE Blocks blocks_from(const Draw& draw, uint64_t group) {
  Lanes order;
  for (size_t i = 0; i < kLanes; ++i) order[i] = i / 2 + i % 2 * (kLanes / 2);
  const Lanes g = order + group;
  return {g, g >> 32, Lanes{} + draw.stream[0], Lanes{} + draw.stream[1]};
}

TERSE_INLINE void store_words(const Blocks& b, uint16_t* out) {
  const Lanes low = (b.c0 & 0xffffffffu) | b.c1 << 32, high = (b.c2 & 0xffffffffu) | b.c3 << 32;
  const Lanes even = even_lanes(low, high), odd = odd_lanes(low, high);
  std::memcpy(out, &even, sizeof even);
  std::memcpy(out + sizeof even / sizeof *out, &odd, sizeof odd);
}

// The 16-bit numbers of elements first .. first + n, n rounded up to a multiple of 256; `first` is
// one of 8.
void draw_elements(const Draw& draw, uint64_t first, size_t n, uint16_t* random) {
  constexpr size_t kAtOnce = 4, kElements = kLanes * kElementsPerDraw;  // chains hide latency
  for (size_t i = 0; i < n; i += kAtOnce * kElements) {
    Blocks blocks[kAtOnce];
    for (size_t k = 0; k < kAtOnce; ++k)
      blocks[k] = blocks_from(draw, (first + i) / kElementsPerDraw + k * kLanes);
    uint32_t key0 = draw.key[0], key1 = draw.key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      for (size_t k = 0; k < kAtOnce; ++k) blocks[k].round(key0, key1);
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    for (size_t k = 0; k < kAtOnce; ++k) store_words(blocks[k], random + i + k * kElements);
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
