// A part of host_ops.cc: how often a coin shows heads in a row, for many random numbers at a time.
#pragma once

#include <bit>

#include "codec/draw.h"
#include "codec/host/random.h"

namespace terse::codec::TERSE_ISA {
namespace {

#if defined(__AVX2__)
using Bytes = uint8_t __attribute__((vector_size(kRegisterBytes)));
using Halves = uint16_t __attribute__((vector_size(kRegisterBytes)));

// Leading zeros of 16 bits whose first nonzero nibble, the `place`-th, is this one; by nibble.
struct ZerosBefore {
  alignas(kRegisterBytes) uint8_t table[kRegisterBytes];

  constexpr explicit ZerosBefore(int place) : table() {
    for (unsigned i = 0; i < kRegisterBytes; ++i)
      table[i] = static_cast<uint8_t>(i % 16 == 0 ? 16 : 4 * place + std::countl_zero(i % 16) - 28);
  }

  TERSE_INLINE Bytes operator[](Bytes nibbles) const {
    LongLanes zeros;
    std::memcpy(&zeros, table, sizeof zeros);
    return Bytes(TERSE_SIMD(shuffle_epi8)(zeros, LongLanes(nibbles)));
  }
};

TERSE_INLINE Bytes least(Bytes a, Bytes b) {
  return Bytes(TERSE_SIMD(min_epu8)(LongLanes(a), LongLanes(b)));
}

// Numbers below 256 to bytes. The instruction takes 64 bits of each operand in turns.
TERSE_INLINE Bytes pack_bytes(Halves a, Halves b) {
  return Bytes(TERSE_SIMD(packus_epi16)(LongLanes(a), LongLanes(b)));
}
TERSE_INLINE Bytes in_order(Bytes packed) {
  const auto x = LongLanes(packed);
#if defined(__AVX512F__)
  return Bytes(__builtin_shufflevector(x, x, 0, 2, 4, 6, 1, 3, 5, 7));
#else
  return Bytes(__builtin_shufflevector(x, x, 0, 2, 1, 3));
#endif
}

// n is rounded up to registers.
TERSE_INLINE void count_heads(const uint16_t* random, size_t n, uint8_t* heads) {
  static constexpr ZerosBefore kFirst(0), kSecond(1), kThird(2), kFourth(3);
  for (size_t i = 0; i < n; i += kRegisterBytes) {
    Halves a, b;
    std::memcpy(&a, random + i, sizeof a);
    std::memcpy(&b, random + i + sizeof a / sizeof *random, sizeof b);
    const Bytes high = pack_bytes(a >> 8, b >> 8), low = pack_bytes(a & 0xff, b & 0xff);
    const Bytes zeros = in_order(least(least(kFirst[high >> 4], kSecond[high & 0xf]),
                                       least(kThird[low >> 4], kFourth[low & 0xf])));
    std::memcpy(heads + i, &zeros, sizeof zeros);
  }
}
#else
TERSE_INLINE void count_heads(const uint16_t* random, size_t n, uint8_t* heads) {
  for (size_t i = 0; i < n; ++i) heads[i] = static_cast<uint8_t>(heads_in_a_row(random[i]));
}
#endif

}  // namespace
}  // namespace terse::codec::TERSE_ISA
