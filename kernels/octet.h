// Eight elements at a time between memory and registers: raw ones as 16-byte words, codes as the
// bytes they fill. `fast` is for whole octets in aligned memory; otherwise elements and bytes are
// taken one by one, as many as there are.
#pragma once

#include <type_traits>

#include "batch.h"
#include "codec/float16.h"
#include "codec/pack.h"
#include "leaf.h"

namespace terse::kernels {

struct alignas(16) Quad {
  uint32_t w[4];
};

// Eight elements of type T as they lie in memory.
template <class T>
struct Octet {
  static constexpr int kQuads = sizeof(T) / 2;
  Quad quad[kQuads];
};

template <class T>
TERSE_DEVICE float element(const Octet<T>& octet, int i) {
  if constexpr (sizeof(T) == 4)
    return codec::bits_float(octet.quad[i / 4].w[i % 4]);
  else
    return codec::to_float(T{static_cast<uint16_t>(octet.quad[0].w[i / 2] >> (16 * (i % 2)))});
}

TERSE_DEVICE uint32_t bits_of(float x) { return codec::float_bits(x); }
TERSE_DEVICE uint32_t bits_of(codec::half_t x) { return x.bits; }
TERSE_DEVICE uint32_t bits_of(codec::bfloat_t x) { return x.bits; }

template <class T>
TERSE_DEVICE Octet<T> make_octet(const float (&values)[kOctet]) {
  Octet<T> octet;
  constexpr int kPerWord = 4 / sizeof(T);
  TERSE_UNROLL
  for (int w = 0; w < Octet<T>::kQuads * 4; ++w) {
    uint32_t word = bits_of(codec::from_float<T>(values[w * kPerWord]));
    if constexpr (kPerWord == 2) word |= bits_of(codec::from_float<T>(values[2 * w + 1])) << 16;
    octet.quad[w / 4].w[w % 4] = word;
  }
  return octet;
}

// An element at any address, as its bits.
template <size_t bytes>
TERSE_DEVICE uint32_t load_bits(const uint8_t* from) {
  uint32_t bits = 0;
  TERSE_UNROLL
  for (size_t k = 0; k < bytes; ++k) bits |= static_cast<uint32_t>(simt::load(from + k)) << (8 * k);
  return bits;
}

template <size_t bytes>
TERSE_DEVICE void store_bits(uint8_t* to, uint32_t bits) {
  TERSE_UNROLL
  for (size_t k = 0; k < bytes; ++k) simt::store(to + k, static_cast<uint8_t>(bits >> (8 * k)));
}

template <class T, bool fast>
TERSE_DEVICE Octet<T> load_octet(const uint8_t* from, uint32_t n) {
  Octet<T> octet{};
  if constexpr (fast) {
    if (n != 0) {
      TERSE_UNROLL
      for (int k = 0; k < Octet<T>::kQuads; ++k)
        octet.quad[k] = simt::load_streaming(reinterpret_cast<const Quad*>(from) + k);
    }
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    TERSE_UNROLL
    for (int i = 0; i < static_cast<int>(kOctet); ++i) {
      if (i >= static_cast<int>(n)) continue;
      const uint32_t bits = load_bits<sizeof(T)>(from + i * sizeof(T));
      octet.quad[i / kPerWord / 4].w[i / kPerWord % 4] |= bits << (8 * sizeof(T) * (i % kPerWord));
    }
  }
  return octet;
}

template <class T, bool fast>
TERSE_DEVICE void store_octet(uint8_t* to, uint32_t n, const Octet<T>& octet) {
  if constexpr (fast) {
    if (n != 0) {
      TERSE_UNROLL
      for (int k = 0; k < Octet<T>::kQuads; ++k)
        simt::store(reinterpret_cast<Quad*>(to) + k, octet.quad[k]);
    }
  } else {
    constexpr int kPerWord = 4 / sizeof(T);
    TERSE_UNROLL
    for (int i = 0; i < static_cast<int>(kOctet); ++i) {
      if (i >= static_cast<int>(n)) continue;
      const uint32_t word = octet.quad[i / kPerWord / 4].w[i / kPerWord % 4];
      store_bits<sizeof(T)>(to + i * sizeof(T), word >> (8 * sizeof(T) * (i % kPerWord)));
    }
  }
}

// The codes of an octet fill `bits` bytes, which are accessed in the largest words that divide
// them.
template <int bits>
using CodeWord =
    std::conditional_t<bits % 8 == 0, uint64_t,
                       std::conditional_t<bits % 4 == 0, uint32_t,
                                          std::conditional_t<bits % 2 == 0, uint16_t, uint8_t>>>;

// n codes, one in each byte; the other bytes are zero.
template <int bits, bool fast>
TERSE_DEVICE uint64_t load_codes(const uint8_t* from, uint32_t n) {
  uint64_t packed = 0;
  if constexpr (fast) {
    using W = CodeWord<bits>;
    if (n != 0) {
      TERSE_UNROLL
      for (size_t k = 0; k < bits / sizeof(W); ++k)
        packed |= static_cast<uint64_t>(simt::load_streaming(reinterpret_cast<const W*>(from) + k))
                  << (8 * sizeof(W) * k);
    }
  } else {
    TERSE_UNROLL
    for (uint32_t k = 0; k < bits; ++k)
      if (8 * k < n * bits) packed |= static_cast<uint64_t>(simt::load(from + k)) << (8 * k);
  }
  return codec::spread<bits>(packed);
}

// `codes` has zero bytes from n on.
template <int bits, bool fast>
TERSE_DEVICE void store_codes(uint8_t* to, uint32_t n, uint64_t codes) {
  const uint64_t packed = codec::squeeze<bits>(codes);
  if constexpr (fast) {
    using W = CodeWord<bits>;
    if (n != 0) {
      TERSE_UNROLL
      for (size_t k = 0; k < bits / sizeof(W); ++k)
        simt::store(reinterpret_cast<W*>(to) + k,
                    static_cast<W>(packed >> (8 * sizeof(W) * k % 64)));
    }
  } else {
    TERSE_UNROLL
    for (uint32_t k = 0; k < bits; ++k)
      if (8 * k < n * bits) simt::store(to + k, static_cast<uint8_t>(packed >> (8 * k)));
  }
}

}  // namespace terse::kernels
