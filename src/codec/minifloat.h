// Floats of few bits: sign, exponent, mantissa (OCP FP8 and MX v1.0; IEEE's fp16 is one, too).
#pragma once

#include "codec/draw.h"
#include "codec/portable.h"

namespace terse::codec {

// `largest`: the code of the largest number. Codes above it are infinity and NaNs, if `infinity`
// says so, or else NaNs.
template <int exponent_bits, int mantissa_bits, uint32_t largest_, bool infinity = false>
struct MiniFloat {
  static constexpr int kBits = 1 + exponent_bits + mantissa_bits;
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr uint32_t kLargestCode = largest_;
  static constexpr bool kHasNan = largest_ + 1 < 1u << (kBits - 1);
  // Bounds as fp32 bits: the smallest normal number, the largest one, and the largest power of two.
  static constexpr uint32_t kNormal = (127u + 1 - kBias) << 23;
  static constexpr uint32_t kLargest =
      kNormal + ((largest_ - (1u << mantissa_bits)) << (23 - mantissa_bits));
  static constexpr uint32_t kLargestExponent = (kLargest >> 23) - 127;

  // The code of the magnitude m, which is at most the largest number's, rounded by `round`.
  template <class Round>
  static TERSE_INLINE uint32_t magnitude_code(float m, Round round) {
    return left_aligned(m, round) >> (32 - kBits);
  }

  // Encodes with x's sign, and saturates. The last shift tells compilers that all before it fits a
  // word, so that vectors become narrower once.
  template <class Round>
  static TERSE_INLINE uint32_t encode(float x, Round round) {
    const float limit = bits_float(kLargest), m = magnitude(x);
    const uint32_t code = left_aligned(m < limit ? m : limit, round);
    return (code | (float_bits(x) & kSignBit)) >> (32 - kBits);
  }

  static TERSE_INLINE uint32_t sign(float x) {
    return float_bits(x) >> (32 - kBits) & 1u << (kBits - 1);
  }

  static TERSE_INLINE float decode(uint32_t code) {
    const uint32_t m = code & ((1u << (kBits - 1)) - 1);
    // A subnormal number is put under the smallest normal one, which is taken away again.
    const uint32_t below = kNormal + (m << (23 - mantissa_bits));
    const uint32_t subnormal = float_bits(add(bits_float(below), -bits_float(kNormal)));
    uint32_t bits = m < 1u << mantissa_bits ? subnormal : below - (1u << 23);
    if constexpr (kHasNan) {
      const bool is_infinity = infinity && m == kLargestCode + 1;
      bits = m <= kLargestCode ? bits : is_infinity ? kInfinityBits : kNanBits;
    }
    return bits_float(bits | code >> (kBits - 1) << 31);
  }

 private:
  // Rounds at the upper end of a word: an integer of units of the last place, whose code continues
  // that of the exponent, and may carry into it.
  template <class Round>
  static TERSE_INLINE uint32_t left_aligned(float m, Round round) {
    const uint32_t exponent = float_bits(m) & kInfinityBits;
    const uint32_t least = exponent > kNormal ? exponent : kNormal;
    return ((least - kNormal) << (8 - exponent_bits)) +
           (round(m, least - (static_cast<uint32_t>(mantissa_bits) << 23)) << (32 - kBits));
  }
};

using E5M2 = MiniFloat<5, 2, 0x7b, true>;
using E4M3 = MiniFloat<4, 3, 0x7e>;
using E2M3 = MiniFloat<2, 3, 0x1f>;
using E2M1 = MiniFloat<2, 1, 0x7>;
static_assert(E5M2::kLargest == 0x47600000u && E4M3::kLargest == 0x43e00000u);  // 57344, 448
static_assert(E2M3::kLargest == 0x40f00000u && E2M1::kLargest == 0x40c00000u);  // 7.5, 6

// How the magnitude m becomes an integer of units, which are powers of two: its lowest bits.

// 2^23 units are added, so that what is below one of them is rounded off.
struct ToNearest {
  TERSE_INLINE uint32_t operator()(float m, uint32_t unit) const {
    return float_bits(add(m, bits_float(unit + (23u << 23))));
  }
};

// Exact.
TERSE_INLINE float in_units(float m, uint32_t unit) {
  return mul(m, bits_float((254u << 23) - unit));
}

// Up with the probability that makes the mean right; for mantissas of up to 6 bits.
struct ToEither {
  uint16_t random;
  TERSE_INLINE uint32_t operator()(float m, uint32_t unit) const {
    return static_cast<uint32_t>(integer_below(add(in_units(m, unit), uniform(random))));
  }
};

}  // namespace terse::codec
