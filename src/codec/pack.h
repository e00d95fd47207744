// Codes of one byte each to and from a little-endian bit string: element i occupies bits
// i*bits .. (i+1)*bits - 1, bit 0 being the lowest of the first byte.
#pragma once

#include "codec/portable.h"

#if defined(__BMI2__) && !defined(__CUDACC__)
#include <immintrin.h>
#define TERSE_HAS_PEXT 1
#endif

namespace terse::codec {

// The low `bits` bits of each of a word's bytes.
template <int bits>
constexpr uint64_t kCodeMask = 0x0101010101010101u * ((1u << bits) - 1);

// Moves the upper of each two neighbouring `lane`-bit lanes, of which `width` bits are used, down
// to the lower one's upper end, and back.
template <int lane, int width>
TERSE_INLINE uint64_t join_lanes(uint64_t x) {
  constexpr uint64_t kLow =
      (~uint64_t{0} / ((uint64_t{1} << lane) + 1)) &
      (~uint64_t{0} / ((uint64_t{1} << lane) - 1) * ((uint64_t{1} << width) - 1));
  return (x & kLow) | (x >> (lane - width) & kLow << width);
}

template <int lane, int width>
TERSE_INLINE uint64_t split_lanes(uint64_t x) {
  constexpr uint64_t kLow =
      (~uint64_t{0} / ((uint64_t{1} << lane) + 1)) &
      (~uint64_t{0} / ((uint64_t{1} << lane) - 1) * ((uint64_t{1} << width) - 1));
  return (x & kLow) | (x & kLow << width) << (lane - width);
}

// Eight codes in the bytes of a word, squeezed to its low 8 * bits bits, and spread out again. The
// bits of a byte above `bits` are ignored by the one and zero after the other.
template <int bits>
TERSE_INLINE uint64_t squeeze(uint64_t x) {
#ifdef TERSE_HAS_PEXT
  return _pext_u64(x, kCodeMask<bits>);
#else
  const uint64_t pairs = join_lanes<8, bits>(x);
  return join_lanes<32, 4 * bits>(join_lanes<16, 2 * bits>(pairs));
#endif
}

template <int bits>
TERSE_INLINE uint64_t spread(uint64_t x) {
#ifdef TERSE_HAS_PEXT
  return _pdep_u64(x, kCodeMask<bits>);
#else
  const uint64_t pairs = split_lanes<16, 2 * bits>(split_lanes<32, 4 * bits>(x));
  return split_lanes<8, bits>(pairs);
#endif
}

constexpr size_t packed_bytes(size_t n, int bits) { return (n * bits + 7) / 8; }

// Static: each instruction set has its own. Four bits, two codes to a byte, vectorise.
template <int bits>
static void pack(const uint8_t* __restrict codes, size_t n, uint8_t* __restrict out) {
  const size_t bytes = packed_bytes(n, bits);
  size_t i = 0, o = 0;
  if constexpr (bits == 4) {
    for (; o < n / 2; ++o) {
      uint16_t pair;
      std::memcpy(&pair, codes + 2 * o, 2);
      out[o] = static_cast<uint8_t>((pair & 0x0f) | (pair >> 4 & 0xf0));
    }
    i = 2 * o;
  }
  for (; o + 8 <= bytes && i + 8 <= n;
       i += 8, o += bits) {  // what a store has too much, the next overwrites
    uint64_t x;
    std::memcpy(&x, codes + i, 8);
    x = squeeze<bits>(x);
    std::memcpy(out + o, &x, 8);
  }
  for (; i < n; i += 8, o += bits) {
    uint64_t x = 0;
    std::memcpy(&x, codes + i, n - i < 8 ? n - i : 8);
    x = squeeze<bits>(x);
    std::memcpy(out + o, &x, bytes - o < bits ? bytes - o : bits);
  }
}

template <int bits>
static void unpack(const uint8_t* __restrict in, size_t n, uint8_t* __restrict codes) {
  const size_t bytes = packed_bytes(n, bits);
  size_t i = 0, o = 0;
  if constexpr (bits == 4) {
    for (; o < n / 2; ++o) {
      const uint16_t pair = static_cast<uint16_t>((in[o] | in[o] << 4) & 0x0f0f);
      std::memcpy(codes + 2 * o, &pair, 2);
    }
    i = 2 * o;
  }
  for (; o + 8 <= bytes && i + 8 <= n; i += 8, o += bits) {
    uint64_t x;
    std::memcpy(&x, in + o, 8);
    x = spread<bits>(x & (~uint64_t{0} >> (64 - 8 * bits)));
    std::memcpy(codes + i, &x, 8);
  }
  for (; i < n; i += 8, o += bits) {
    uint64_t x = 0;
    std::memcpy(&x, in + o, bytes - o < bits ? bytes - o : bits);
    x = spread<bits>(x);
    std::memcpy(codes + i, &x, n - i < 8 ? n - i : 8);
  }
}

}  // namespace terse::codec
