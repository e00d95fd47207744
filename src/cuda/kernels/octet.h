// Eight elements at a time between memory and registers: raw ones as 16-byte words, codes as the
// bytes they fill; less than that where an octet is short or memory is not aligned (rows.h).
#pragma once

#include <type_traits>

#include "codec/float16.h"
#include "codec/pack.h"
#include "rows.h"
#include "word.h"

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
    return simt::to_float(T{static_cast<uint16_t>(octet.quad[0].w[i / 2] >> (16 * (i % 2)))});
}

TERSE_DEVICE Octet<float> make_octet(const float (&values)[kOctet], float) {
  Octet<float> octet;
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i)
    octet.quad[i / 4].w[i % 4] = codec::float_bits(codec::from_float<float>(values[i]));
  return octet;
}

template <class T>
TERSE_DEVICE Octet<T> make_octet(const float (&values)[kOctet], T) {
  Octet<T> octet;
  uint32_t nans = 0;
  TERSE_UNROLL
  for (int w = 0; w < 4; ++w) {
    const uint32_t pair = simt::round_pair<T>(values[2 * w], values[2 * w + 1]);
    nans |= codec::nan_marks<T>(pair);
    octet.quad[0].w[w] = pair;
  }
  if (nans == 0) return octet;
  TERSE_UNROLL
  for (uint32_t& pair : octet.quad[0].w) pair = codec::with_canonical_nans<T>(pair);
  return octet;
}

// Where an element lies in an octet of them.
template <class T>
struct Slot {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;  // an element's bits
  static constexpr uint32_t kPerWord = 4 / sizeof(T);
  uint32_t quad, word, shift;

  TERSE_DEVICE explicit Slot(uint32_t i)
      : quad(i / kPerWord / 4), word(i / kPerWord % 4), shift(8 * sizeof(T) * (i % kPerWord)) {}
};

// Raw memory of n elements: as quads where all are there and aligned, by element where those are,
// else by byte.
template <class T, Access access>
TERSE_DEVICE Octet<T> load_octet(const uint8_t* from, uint32_t n) {
  Octet<T> octet{};
  if (access == Access::kWhole || (n == kOctet && is_aligned<Quad>(from))) {
    TERSE_UNROLL
    for (int k = 0; k < Octet<T>::kQuads; ++k)
      octet.quad[k] = simt::load_streaming(reinterpret_cast<const Quad*>(from) + k);
    return octet;
  }
  using Word = typename Slot<T>::Word;
  const bool aligned = is_aligned<Word>(from);
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i) {
    if (i >= n) continue;
    const Slot<T> slot(i);
    const uint32_t bits = load_word<Word>(from + i * sizeof(T), aligned);
    octet.quad[slot.quad].w[slot.word] |= bits << slot.shift;
  }
  return octet;
}

template <class T, Access access>
TERSE_DEVICE void store_octet(uint8_t* to, uint32_t n, const Octet<T>& octet) {
  if (access == Access::kWhole || (n == kOctet && is_aligned<Quad>(to))) {
    TERSE_UNROLL
    for (int k = 0; k < Octet<T>::kQuads; ++k)
      simt::store(reinterpret_cast<Quad*>(to) + k, octet.quad[k]);
    return;
  }
  using Word = typename Slot<T>::Word;
  const bool aligned = is_aligned<Word>(to);
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i) {
    if (i >= n) continue;
    const Slot<T> slot(i);
    const uint32_t bits = octet.quad[slot.quad].w[slot.word] >> slot.shift;
    store_word(to + i * sizeof(T), static_cast<Word>(bits), aligned);
  }
}

// An octet's codes, one in each byte of two words.
struct Codes {
  uint32_t w[2];

  TERSE_DEVICE uint32_t operator[](uint32_t i) const {
    return simt::permute(w[i / 4], 0, 0x4440 | i % 4);
  }
};

// Codes of two bytes.
struct WideCodes {
  uint32_t w[4];

  TERSE_DEVICE uint32_t operator[](uint32_t i) const { return w[i / 2] >> (16 * (i % 2)) & 0xffff; }
};

template <int bits>
using CodesOf = std::conditional_t<(bits > 8), WideCodes, Codes>;

// Of each number the low half.
TERSE_DEVICE WideCodes make_codes(const uint32_t (&low)[kOctet], WideCodes) {
  WideCodes codes;
  TERSE_UNROLL
  for (uint32_t k = 0; k < 4; ++k) codes.w[k] = simt::permute(low[2 * k], low[2 * k + 1], 0x5410);
  return codes;
}

// Of each number the low byte.
TERSE_DEVICE Codes make_codes(const uint32_t (&low)[kOctet], Codes) {
  Codes codes;
  TERSE_UNROLL
  for (uint32_t k = 0; k < 2; ++k) {
    const uint32_t* const four = low + 4 * k;
    codes.w[k] = simt::permute(simt::permute(four[0], four[1], 0x0040),
                               simt::permute(four[2], four[3], 0x0040), 0x5410);
  }
  return codes;
}

// Their bits without gaps; what is above `bits` in a code's byte is lost.
template <int bits>
TERSE_DEVICE uint64_t squeeze(const Codes& codes) {
  if constexpr (bits == 4) {
    uint32_t pairs[2];  // in bytes 0 and 2
    TERSE_UNROLL
    for (uint32_t k = 0; k < 2; ++k)
      pairs[k] = (codes.w[k] & 0x0f0f0f0fu) | (codes.w[k] >> 4 & 0xf0f0f0f0u);
    return simt::permute(pairs[0], pairs[1], 0x6420);
  } else {
    return codec::squeeze<bits>(codes.w[0] | static_cast<uint64_t>(codes.w[1]) << 32);
  }
}

template <int bits>
TERSE_DEVICE Codes spread(uint64_t packed) {
  if constexpr (bits == 4) {
    const uint32_t even = packed & 0x0f0f0f0fu, odd = packed >> 4 & 0x0f0f0f0fu;
    return {{simt::permute(even, odd, 0x5140), simt::permute(even, odd, 0x7362)}};
  } else {
    const uint64_t codes = codec::spread<bits>(packed);
    return {{static_cast<uint32_t>(codes), static_cast<uint32_t>(codes >> 32)}};
  }
}

// The codes of an octet fill `bits` bytes, which are accessed in the largest words that divide
// them.
template <int bits>
using CodeWord =
    std::conditional_t<bits % 8 == 0, uint64_t,
                       std::conditional_t<bits % 4 == 0, uint32_t,
                                          std::conditional_t<bits % 2 == 0, uint16_t, uint8_t>>>;

// n codes; the others are zero.
template <int bits, Access access>
TERSE_DEVICE Codes load_narrow_codes(const uint8_t* from, uint32_t n) {
  uint64_t packed = 0;
  using W = CodeWord<bits>;
  if (access == Access::kWhole || (n == kOctet && is_aligned<W>(from))) {
    TERSE_UNROLL
    for (size_t k = 0; k < bits / sizeof(W); ++k)
      packed |= static_cast<uint64_t>(simt::load_streaming(reinterpret_cast<const W*>(from) + k))
                << (8 * sizeof(W) * k);
  } else {
    TERSE_UNROLL
    for (uint32_t k = 0; k < bits; ++k)
      if (8 * k < n * bits) packed |= static_cast<uint64_t>(simt::load(from + k)) << (8 * k);
  }
  return spread<bits>(packed);
}

// `codes` has zero bytes from n on.
template <int bits, Access access>
TERSE_DEVICE void store_narrow_codes(uint8_t* to, uint32_t n, const Codes& codes) {
  const uint64_t packed = squeeze<bits>(codes);
  using W = CodeWord<bits>;
  if (access == Access::kWhole || (n == kOctet && is_aligned<W>(to))) {
    TERSE_UNROLL
    for (size_t k = 0; k < bits / sizeof(W); ++k)
      simt::store(reinterpret_cast<W*>(to) + k, static_cast<W>(packed >> (8 * sizeof(W) * k % 64)));
  } else {
    TERSE_UNROLL
    for (uint32_t k = 0; k < bits; ++k)
      if (8 * k < n * bits) simt::store(to + k, static_cast<uint8_t>(packed >> (8 * k)));
  }
}

// As above, of codes of two bytes.
template <Access access>
TERSE_DEVICE WideCodes load_wide_codes(const uint8_t* from, uint32_t n) {
  WideCodes codes{};
  if (access == Access::kWhole || (n == kOctet && is_aligned<uint64_t>(from))) {
    TERSE_UNROLL
    for (uint32_t k = 0; k < 2; ++k) {
      const uint64_t half = simt::load_streaming(reinterpret_cast<const uint64_t*>(from) + k);
      codes.w[2 * k] = static_cast<uint32_t>(half);
      codes.w[2 * k + 1] = static_cast<uint32_t>(half >> 32);
    }
    return codes;
  }
  const bool aligned = is_aligned<uint16_t>(from);
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i)
    if (i < n)
      codes.w[i / 2] |= uint32_t{load_word<uint16_t>(from + 2 * i, aligned)} << (16 * (i % 2));
  return codes;
}

template <Access access>
TERSE_DEVICE void store_wide_codes(uint8_t* to, uint32_t n, const WideCodes& codes) {
  if (access == Access::kWhole || (n == kOctet && is_aligned<uint64_t>(to))) {
    TERSE_UNROLL
    for (uint32_t k = 0; k < 2; ++k)
      simt::store(reinterpret_cast<uint64_t*>(to) + k,
                  codes.w[2 * k] | static_cast<uint64_t>(codes.w[2 * k + 1]) << 32);
    return;
  }
  const bool aligned = is_aligned<uint16_t>(to);
  TERSE_UNROLL
  for (uint32_t i = 0; i < kOctet; ++i)
    if (i < n) store_word(to + 2 * i, static_cast<uint16_t>(codes[i]), aligned);
}

template <int bits, Access access>
TERSE_DEVICE CodesOf<bits> load_codes(const uint8_t* from, uint32_t n) {
  if constexpr (bits > 8)
    return load_wide_codes<access>(from, n);
  else
    return load_narrow_codes<bits, access>(from, n);
}

template <int bits, Access access>
TERSE_DEVICE void store_codes(uint8_t* to, uint32_t n, const CodesOf<bits>& codes) {
  if constexpr (bits > 8)
    store_wide_codes<access>(to, n, codes);
  else
    store_narrow_codes<bits, access>(to, n, codes);
}

}  // namespace terse::kernels
