// The random numbers of one encoding (FORMAT.md, section 5): 16 bits for each element, keyed so
// that seed, communicator, call, rank, shard and stage each give an independent sequence.
#pragma once

#include "codec/philox.h"

namespace terse::codec {

// Eight elements share one Philox block.
constexpr uint64_t kElementsPerDraw = 8;

// Number that is made of a uniform u: u, 1 - u, -2u or u + 1/2, modulo 1.
enum class Variate : uint8_t { kOwn, kMirrored, kDoubled, kShifted };

struct Draw {
  uint32_t key[2] = {0, 0};
  uint32_t stream[2] = {0, 0};
  uint32_t rotate = 0,
           flip = 0;  // of each word, by the variate: bits to the left, and then flipped
};

struct DrawKey {
  uint64_t seed = 0;
  uint64_t communicator = 0;  // of a message its ordinal, agreed by all ranks
  uint64_t sequence = 0;      // of the call on its communicator
  uint32_t rank = 0;          // who encodes
  uint32_t shard = 0;         // for whom: the destination's shard; below 2^24
  uint32_t stage = 0;         // first or second quantization of a call; below 2^8
  Variate variate = Variate::kOwn;
};

TERSE_INLINE uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

TERSE_INLINE Draw make_draw(const DrawKey& k) {
  const uint64_t key = splitmix64(k.seed ^ splitmix64(k.communicator ^ splitmix64(k.sequence)));
  constexpr uint32_t kFlips[] = {0, ~0u, ~0u, 0x80008000u};
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
          {k.rank, k.shard | k.stage << 24},
          k.variate == Variate::kDoubled ? 1u : 0u,
          kFlips[static_cast<int>(k.variate)]};
}

// The draw of a recorded call that runs for the n-th time again (n = 0: the first time).
TERSE_INLINE Draw redraw(const Draw& draw, uint64_t n) {
  if (n == 0) return draw;
  const uint64_t key = draw.key[0] | static_cast<uint64_t>(draw.key[1]) << 32;
  const uint64_t again = splitmix64(key ^ splitmix64(n));
  return {{static_cast<uint32_t>(again), static_cast<uint32_t>(again >> 32)},
          {draw.stream[0], draw.stream[1]},
          draw.rotate,
          draw.flip};
}

// Draw of a merge: each merge has numbers of its own.
TERSE_INLINE Draw draw_of_merge(const Draw& draw, uint32_t merge) {
  return {{draw.key[0], draw.key[1]}, {draw.stream[0] + merge, draw.stream[1]}};
}

// The draw's variate of some words.
TERSE_INLINE PhiloxWords vary(PhiloxWords words, const Draw& draw) {
  if (draw.rotate != 0)
    for (uint32_t& word : words.w) word = word << 1 | word >> 31;
  for (uint32_t& word : words.w) word ^= draw.flip;
  return words;
}

// The Philox block of elements 8 * group .. 8 * group + 7, as the draw's variate.
TERSE_INLINE PhiloxWords draw_group(const Draw& draw, uint64_t group) {
  return vary(philox(draw.key[0], draw.key[1],
                     {{static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32),
                       draw.stream[0], draw.stream[1]}}),
              draw);
}

// Element e's 16 bits: the low half of word (e % 8) / 2 when e is even, the high half when odd.
TERSE_INLINE uint16_t draw_bits(const PhiloxWords& words, uint64_t element) {
  const uint32_t word = words.w[(element % kElementsPerDraw) / 2];
  return static_cast<uint16_t>(element % 2 == 0 ? word : word >> 16);
}

// Number in (0, 1): the centre of one of 65536 equal intervals, so that the mean is exactly 1/2.
// The bits are the head of the significand of a number in [1, 2); subtracting 1 - 2^-17 is exact.
TERSE_INLINE float uniform(uint16_t bits) {
#ifdef __CUDA_ARCH__  // the same in two operations: (2^23 + bits) / 2^16 - (2^7 - 2^-17)
  return __fmaf_rn(bits_float(0x4b000000u | bits), 0x1p-16f, -0x1.fffffep+6f);
#else
  return add(bits_float(0x3f800000u | static_cast<uint32_t>(bits) << 7), -bits_float(0x3f7fff80u));
#endif
}

// The 16 bits of one element.
TERSE_INLINE uint16_t element_bits(const Draw& draw, uint64_t element) {
  return draw_bits(draw_group(draw, element / kElementsPerDraw), element);
}

// Shift of a block's grid, in units of its scale, from -1/2 to 1/2.
TERSE_INLINE float shift_of(uint16_t bits) { return add(uniform(bits), -0.5f); }

// Derives the bits of element i from those of a block's first element: each alone is as random, but
// all are spread evenly, as multiples of the golden ratio are.
TERSE_INLINE uint16_t spread_bits(uint16_t first, size_t i) {
  return static_cast<uint16_t>(first + 40503u * static_cast<uint32_t>(i));
}

// How often a coin shows heads in a row, which is `heads` times or more with a probability of
// 2^-heads, up to 16: the zeros in front of the first one.
TERSE_INLINE uint32_t heads_in_a_row(uint16_t bits) {
  constexpr uint32_t kExponentOfHalf = 126, kMantissaBits = 23;
  return kExponentOfHalf - (float_bits(uniform(bits)) >> kMantissaBits);
}

}  // namespace terse::codec
