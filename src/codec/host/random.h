// A part of host_ops.cc: the random numbers of many elements at a time.
#pragma once

#include "codec/draw.h"
#include "codec/host/registers.h"

namespace terse::codec::TERSE_ISA {
namespace {

// A word of a Philox block lies in the low half of a lane; the high half does not matter, for
// products are of the low halves.
#if defined(__SSE2__)
using Words = float __attribute__((vector_size(kRegisterBytes)));

// Takes the even words of each 128 bits of two registers, or the odd ones.
TERSE_INLINE Lanes even_words(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(shuffle_ps)(Words(a), Words(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
TERSE_INLINE Lanes odd_words(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(shuffle_ps)(Words(a), Words(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
#else
TERSE_INLINE Lanes even_words(Lanes a, Lanes b) {
  return Lanes{(a[0] & 0xffffffffu) | a[1] << 32, (b[0] & 0xffffffffu) | b[1] << 32};
}
TERSE_INLINE Lanes odd_words(Lanes a, Lanes b) {
  return Lanes{a[0] >> 32 | (a[1] & ~0xffffffffull), b[0] >> 32 | (b[1] & ~0xffffffffull)};
}
#endif

// Common part of Philox blocks (philox.h) whose counters differ in the lowest word alone, as those
// of one draw do: half of the first two rounds, and all keys.
struct Common {
  static constexpr int kRounds = kPhiloxRounds - 2;  // the others

  uint64_t c2_first, c0_second, c2_second;  // what these words are made of besides
  Lanes keys[kRounds][2];

  TERSE_INLINE Common(const Draw& draw, uint64_t high) {
    uint32_t key0 = draw.key[0], key1 = draw.key[1];
    const auto next_keys = [&] {
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    };
    const uint64_t p1 = uint64_t{kPhiloxFactor1} * draw.stream[0];
    const uint32_t c0 = static_cast<uint32_t>(p1 >> 32 ^ high ^ key0);
    c2_first = draw.stream[1] ^ key1;
    next_keys();
    const uint64_t p0 = uint64_t{kPhiloxFactor0} * c0;
    c0_second = static_cast<uint32_t>(p1) ^ key0;
    c2_second = p0 >> 32 ^ key1;
    for (auto& of_round : keys) {
      next_keys();
      of_round[0] = Lanes{} + key0;
      of_round[1] = Lanes{} + key1;
    }
    keys[0][1] ^= static_cast<uint32_t>(p0);  // c3 after the second round
  }
};

// The counters of kLanes Philox blocks, and then their words.
struct Blocks {
  Lanes c0, c1, c2, c3;

  Blocks() = default;
  TERSE_INLINE Blocks(const Common& common, Lanes lowest) {
    const Lanes p0 = multiply_low(lowest, Lanes{} + kPhiloxFactor0);
    const Lanes p1 = multiply_low(p0 >> 32 ^ common.c2_first, Lanes{} + kPhiloxFactor1);
    c0 = p1 >> 32 ^ common.c0_second;
    c1 = p1;
    c2 = p0 ^ common.c2_second;
    c3 = Lanes{};
  }

  TERSE_INLINE void round(const Lanes (&keys)[2]) {
    const Lanes p0 = multiply_low(c0, Lanes{} + kPhiloxFactor0);
    const Lanes p1 = multiply_low(c2, Lanes{} + kPhiloxFactor1);
    c0 = p1 >> 32 ^ (c1 ^ keys[0]);
    c2 = p0 >> 32 ^ (c3 ^ keys[1]);
    c1 = p1;
    c3 = p0;
  }
};

// Even lanes hold the first half of the blocks and odd ones the second, each in their order: so
// even_words() and odd_words() have them side by side.
TERSE_INLINE Lanes order_of_blocks() {
  Lanes order;
  for (size_t i = 0; i < kLanes; ++i) order[i] = i / 2 + i % 2 * (kLanes / 2);
  return order;
}

// Applies the draw's variate to two words in each lane.
TERSE_INLINE Lanes vary(Lanes words, bool rotates, Lanes flip) {
  if (rotates) words = (words << 1 & ~0x0000000100000000u) | (words >> 31 & 0x0000000100000001u);
  return words ^ flip;
}

// Draws where the counters' second word changes on the way: once in 2^35 elements.
void draw_across(const Draw& draw, uint64_t first, size_t n, uint16_t* random) {
  for (size_t i = 0; i < n; i += kElementsPerDraw) {
    const PhiloxWords words = draw_group(draw, (first + i) / kElementsPerDraw);
    for (size_t k = 0; k < kElementsPerDraw; ++k) random[i + k] = draw_bits(words, k);
  }
}

// The 16-bit numbers of elements first .. first + n, n rounded up to a multiple of 256; `first` is
// one of 8.
void draw_elements(const Draw& draw, uint64_t first, size_t n, uint16_t* random) {
  constexpr size_t kAtOnce = 4;  // chains hide latency
  constexpr size_t kElements = kAtOnce * kLanes * kElementsPerDraw;
  const size_t drawn = (n + kElements - 1) / kElements * kElements;
  const uint64_t begin = first / kElementsPerDraw, high = begin >> 32;
  if ((begin + drawn / kElementsPerDraw) >> 32 != high)
    return draw_across(draw, first, drawn, random);
  const Common common(draw, high);
  const bool rotates = draw.rotate != 0;
  const Lanes flip = Lanes{} + (draw.flip | static_cast<uint64_t>(draw.flip) << 32);
  Lanes lowest = order_of_blocks() + begin;
  for (size_t i = 0; i < drawn; i += kElements) {
    Blocks blocks[kAtOnce];
    for (size_t k = 0; k < kAtOnce; ++k, lowest += kLanes) blocks[k] = Blocks(common, lowest);
    for (const auto& keys : common.keys)
      for (size_t k = 0; k < kAtOnce; ++k) blocks[k].round(keys);
    for (size_t k = 0; k < kAtOnce; ++k) {
      const Lanes low = even_words(blocks[k].c0, blocks[k].c1),
                  high_words = even_words(blocks[k].c2, blocks[k].c3);
      const Lanes halves[] = {vary(even_words(low, high_words), rotates, flip),
                              vary(odd_words(low, high_words), rotates, flip)};
      std::memcpy(random + i + k * kLanes * kElementsPerDraw, halves, sizeof halves);
    }
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
