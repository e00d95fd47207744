// Eight elements at a time between memory and registers: raw ones as 16-byte words, codes as the
// bytes they fill; less than that where a vec8 is short or memory is not aligned (thread_rows.h).
#pragma once

#include <type_traits>

#include "codec/float16.h"
#include "codec/pack.h"
#include "kernels/device/thread_rows.h"
#include "kernels/device/word.h"

namespace terse::kernels {

// Access to memory: kWhole is aligned and has all elements; of kAny nothing is known.
enum class Access { kWhole, kAny };

struct alignas(16) Quad {
  uint32_t w[4];
};

// Eight elements of type T as they lie in memory.
template <class T>
struct Vec8 {
  static constexpr int kQuads = sizeof(T) / 2, kWords = 4 * kQuads;
  Quad quad[kQuads];

  TERSE_DEVICE uint32_t& word(int k) { return quad[k / 4].w[k % 4]; }
};

template <class T>
TERSE_DEVICE float element(const Vec8<T>& vec8, int i) {
  if constexpr (sizeof(T) == 4)
    return codec::bits_float(vec8.quad[i / 4].w[i % 4]);
  else
    return simt::to_float(T{static_cast<uint16_t>(vec8.quad[0].w[i / 2] >> (16 * (i % 2)))});
}

TERSE_DEVICE Vec8<float> make_vec8(const float (&values)[kVec8], float) {
  Vec8<float> vec8;
  TERSE_UNROLL
  for (uint32_t i = 0; i < kVec8; ++i)
    vec8.quad[i / 4].w[i % 4] = codec::float_bits(codec::from_float<float>(values[i]));
  return vec8;
}

template <class T>
TERSE_DEVICE Vec8<T> make_vec8(const float (&values)[kVec8], T) {
  Vec8<T> vec8;
  uint32_t nans = 0;
  TERSE_UNROLL
  for (int w = 0; w < 4; ++w) {
    const uint32_t pair = simt::round_pair<T>(values[2 * w], values[2 * w + 1]);
    nans |= codec::nan_marks<T>(pair);
    vec8.quad[0].w[w] = pair;
  }
  if (nans == 0) return vec8;
  TERSE_UNROLL
  for (uint32_t& pair : vec8.quad[0].w) pair = codec::with_canonical_nans<T>(pair);
  return vec8;
}

// Place of an element in a vec8.
template <class T>
struct Slot {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;  // an element's bits
  static constexpr uint32_t kPerWord = 4 / sizeof(T);
  uint32_t word, shift;

  TERSE_DEVICE explicit Slot(uint32_t i)
      : word(i / kPerWord), shift(8 * sizeof(T) * (i % kPerWord)) {}
};

// Bytes to and from words, one after the other: slow, and little code. `at(k)`: which bytes.
template <class Words, class At>
TERSE_DEVICE void load_bytes(Words& words, const uint8_t* from, uint32_t bytes, const At& at) {
  TERSE_NO_UNROLL
  for (uint32_t k = bytes; k-- > 0;) {
    TERSE_UNROLL
    for (int w = Words::kWords - 1; w > 0; --w)
      words.word(w) = words.word(w) << 8 | words.word(w - 1) >> 24;
    words.word(0) = words.word(0) << 8 | simt::load(from + at(k));
  }
}

template <class Words>
TERSE_DEVICE void store_bytes(uint8_t* to, Words words, uint32_t bytes) {
  TERSE_NO_UNROLL
  for (uint32_t k = 0; k < bytes; ++k) {
    simt::store(to + k, static_cast<uint8_t>(words.word(0)));
    TERSE_UNROLL
    for (int w = 0; w + 1 < Words::kWords; ++w)
      words.word(w) = words.word(w) >> 8 | words.word(w + 1) << 24;
    words.word(Words::kWords - 1) >>= 8;
  }
}

// Raw memory of n elements, and copies of the first one in the others' places: as quads where all
// are there and aligned, by element where those are, else by byte.
template <class T, Access access>
TERSE_DEVICE Vec8<T> load_vec8(const uint8_t* from, uint32_t n) {
  Vec8<T> vec8{};
  if (access == Access::kWhole || (n == kVec8 && is_aligned<Quad>(from))) {
    TERSE_UNROLL
    for (int k = 0; k < Vec8<T>::kQuads; ++k)
      vec8.quad[k] = simt::load_streaming(reinterpret_cast<const Quad*>(from) + k);
    return vec8;
  }
  if (n == 0) return vec8;
  using Word = typename Slot<T>::Word;
  if (!is_aligned<Word>(from)) {
    load_bytes(vec8, from, sizeof(vec8), [n](uint32_t k) {
      return k < n * sizeof(T) ? k : k % static_cast<uint32_t>(sizeof(T));
    });
    return vec8;
  }
  TERSE_UNROLL
  for (uint32_t i = 0; i < kVec8; ++i) {
    const Slot<T> slot(i);
    const uint32_t bits = simt::load(reinterpret_cast<const Word*>(from) + (i < n ? i : 0));
    vec8.word(slot.word) |= bits << slot.shift;
  }
  return vec8;
}

template <class T, Access access>
TERSE_DEVICE void store_vec8(uint8_t* to, uint32_t n, Vec8<T> vec8) {
  if (access == Access::kWhole || (n == kVec8 && is_aligned<Quad>(to))) {
    TERSE_UNROLL
    for (int k = 0; k < Vec8<T>::kQuads; ++k)
      simt::store(reinterpret_cast<Quad*>(to) + k, vec8.quad[k]);
    return;
  }
  using Word = typename Slot<T>::Word;
  if (!is_aligned<Word>(to)) return store_bytes(to, vec8, n * sizeof(T));
  TERSE_UNROLL
  for (uint32_t i = 0; i < kVec8; ++i) {
    if (i >= n) continue;
    const Slot<T> slot(i);
    const uint32_t bits = vec8.word(slot.word) >> slot.shift;
    simt::store(reinterpret_cast<Word*>(to) + i, static_cast<Word>(bits));
  }
}

// An vec8's codes, one in each byte of two words.
struct Codes {
  uint32_t w[2];

  TERSE_DEVICE uint32_t operator[](uint32_t i) const {
    return simt::permute(w[i / 4], 0, 0x4440 | i % 4);
  }

  // All of them xored with some bits.
  TERSE_DEVICE Codes flipped(uint32_t bits) const {
    const uint32_t all = bits * 0x01010101u;
    return {{w[0] ^ all, w[1] ^ all}};
  }

  // integer_less() of a code.
  TERSE_DEVICE float integer(uint32_t i, uint32_t less) const {
    const uint32_t pushed = simt::permute(w[i / 4], codec::kIntegers, 0x7540 | i % 4);
    return codec::add(codec::bits_float(pushed), -codec::bits_float(codec::kIntegers ^ less));
  }

  // The first n; zeros in the others' places.
  TERSE_DEVICE Codes first(uint32_t n) const {
    const uint64_t kept = n < kVec8 ? (uint64_t{1} << (8 * n)) - 1 : ~uint64_t{0};
    return {{w[0] & static_cast<uint32_t>(kept), w[1] & static_cast<uint32_t>(kept >> 32)}};
  }

  // The first n; copies of the first one in the others' places.
  TERSE_DEVICE Codes filled(uint32_t n) const {
    const uint32_t copies = (*this)[0] * 0x01010101u;
    const Codes kept = first(n), filled = Codes{{copies, copies}}.first(n);
    return {{kept.w[0] | (copies ^ filled.w[0]), kept.w[1] | (copies ^ filled.w[1])}};
  }
};

// Codes of two bytes.
struct WideCodes {
  static constexpr int kWords = 4;
  uint32_t w[kWords];

  TERSE_DEVICE uint32_t& word(int k) { return w[k]; }

  TERSE_DEVICE uint32_t operator[](uint32_t i) const { return w[i / 2] >> (16 * (i % 2)) & 0xffff; }

  TERSE_DEVICE WideCodes first(uint32_t n) const {
    WideCodes codes = *this;
    TERSE_UNROLL
    for (uint32_t k = 0; k < kWords; ++k)
      if (n < 2 * k + 2) codes.w[k] &= n > 2 * k ? 0xffff : 0;
    return codes;
  }

  TERSE_DEVICE WideCodes filled(uint32_t n) const {
    const uint32_t copies = (*this)[0] * 0x00010001u;
    const WideCodes kept = first(n), filled = WideCodes{{copies, copies, copies, copies}}.first(n);
    WideCodes codes;
    TERSE_UNROLL
    for (uint32_t k = 0; k < kWords; ++k) codes.w[k] = kept.w[k] | (copies ^ filled.w[k]);
    return codes;
  }
};

template <int bits>
using CodesOf = std::conditional_t<(bits > 8), WideCodes, Codes>;

// Takes the low half of each number.
TERSE_DEVICE WideCodes make_codes(const uint32_t (&low)[kVec8], WideCodes) {
  WideCodes codes;
  TERSE_UNROLL
  for (uint32_t k = 0; k < 4; ++k) codes.w[k] = simt::permute(low[2 * k], low[2 * k + 1], 0x5410);
  return codes;
}

// Takes the low byte of each number.
TERSE_DEVICE Codes make_codes(const uint32_t (&low)[kVec8], Codes) {
  Codes codes;
  TERSE_UNROLL
  for (uint32_t k = 0; k < 2; ++k) {
    const uint32_t* const four = low + 4 * k;
    codes.w[k] = simt::permute(simt::permute(four[0], four[1], 0x0040),
                               simt::permute(four[2], four[3], 0x0040), 0x5410);
  }
  return codes;
}

// Packs codes without gaps; drops the bits of a code's byte above `bits`.
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

// The codes of a vec8 fill `bits` bytes, which are accessed in the largest words that divide
// them.
template <int bits>
using CodeWord =
    std::conditional_t<bits % 8 == 0, uint64_t,
                       std::conditional_t<bits % 4 == 0, uint32_t,
                                          std::conditional_t<bits % 2 == 0, uint16_t, uint8_t>>>;

struct PackedCodes {
  static constexpr int kWords = 2;
  uint32_t w[kWords];

  TERSE_DEVICE uint32_t& word(int k) { return w[k]; }
};

// n codes, and copies of the first one in the others' places.
template <int bits, Access access>
TERSE_DEVICE Codes load_narrow_codes(const uint8_t* from, uint32_t n) {
  uint64_t packed = 0;
  using W = CodeWord<bits>;
  if (access == Access::kWhole || (n == kVec8 && is_aligned<W>(from))) {
    TERSE_UNROLL
    for (size_t k = 0; k < bits / sizeof(W); ++k)
      packed |= static_cast<uint64_t>(simt::load_streaming(reinterpret_cast<const W*>(from) + k))
                << (8 * sizeof(W) * k);
  } else {
    PackedCodes words{};
    load_bytes(words, from, (n * bits + 7) / 8, [](uint32_t k) { return k; });
    packed = words.w[0] | static_cast<uint64_t>(words.w[1]) << 32;
  }
  const Codes codes = spread<bits>(packed);
  return access == Access::kWhole ? codes : codes.filled(n);
}

// n of them: the others are zero.
template <int bits, Access access>
TERSE_DEVICE void store_narrow_codes(uint8_t* to, uint32_t n, const Codes& codes) {
  const uint64_t packed = squeeze<bits>(codes);
  using W = CodeWord<bits>;
  if (access == Access::kWhole || (n == kVec8 && is_aligned<W>(to))) {
    TERSE_UNROLL
    for (size_t k = 0; k < bits / sizeof(W); ++k)
      simt::store(reinterpret_cast<W*>(to) + k, static_cast<W>(packed >> (8 * sizeof(W) * k % 64)));
  } else {
    const PackedCodes words{{static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)}};
    store_bytes(to, words, (n * bits + 7) / 8);
  }
}

// Loads codes of two bytes likewise.
template <Access access>
TERSE_DEVICE WideCodes load_wide_codes(const uint8_t* from, uint32_t n) {
  WideCodes codes{};
  if (access == Access::kWhole || (n == kVec8 && is_aligned<uint64_t>(from))) {
    TERSE_UNROLL
    for (uint32_t k = 0; k < 2; ++k) {
      const uint64_t half = simt::load_streaming(reinterpret_cast<const uint64_t*>(from) + k);
      codes.w[2 * k] = static_cast<uint32_t>(half);
      codes.w[2 * k + 1] = static_cast<uint32_t>(half >> 32);
    }
    return codes;
  }
  load_bytes(codes, from, 2 * n, [](uint32_t k) { return k; });
  return codes.filled(n);
}

template <Access access>
TERSE_DEVICE void store_wide_codes(uint8_t* to, uint32_t n, const WideCodes& codes) {
  if (access == Access::kWhole || (n == kVec8 && is_aligned<uint64_t>(to))) {
    TERSE_UNROLL
    for (uint32_t k = 0; k < 2; ++k)
      simt::store(reinterpret_cast<uint64_t*>(to) + k,
                  codes.w[2 * k] | static_cast<uint64_t>(codes.w[2 * k + 1]) << 32);
    return;
  }
  store_bytes(to, codes, 2 * n);
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
