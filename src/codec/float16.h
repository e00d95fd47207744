// fp16 and bf16 to and from fp32, in integer arithmetic that vectorises and that gives the same
// bits on every machine. Rounding is to nearest, ties to even; overflow gives infinity; every NaN
// becomes the canonical quiet NaN.
#pragma once

#include "codec/portable.h"

namespace terse::codec {

struct half_t {
  uint16_t bits;
};

struct bfloat_t {
  uint16_t bits;
};

TERSE_INLINE float to_float(float x) { return x; }

TERSE_INLINE float to_float(bfloat_t x) { return bits_float(static_cast<uint32_t>(x.bits) << 16); }

TERSE_INLINE float to_float(half_t x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Normal numbers: rebase the exponent by +112. Subnormal ones: put the significand under 2^-14
  // and take that away again, which is exact and never touches an fp32 subnormal.
  const uint32_t normal = (magnitude << 13) + 0x38000000u;
  const uint32_t subnormal =
      float_bits(add(bits_float(0x38800000u + (magnitude << 13)), -bits_float(0x38800000u)));
  const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
  const uint32_t special = kInfinityBits | (magnitude << 13);
  return bits_float(sign | (magnitude >= 0x7c00u ? special : finite));
}

// Converts any x but NaN.
template <class T>
TERSE_INLINE T from_number(float x);

template <>
TERSE_INLINE float from_number<float>(float x) {
  return x;
}

template <>
TERSE_INLINE bfloat_t from_number<bfloat_t>(float x) {
  const uint32_t bits = float_bits(x);
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
TERSE_INLINE half_t from_number<half_t>(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: rebase the exponent by -112 and round the 13 bits that fall off.
  const uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results: adding 0.5 aligns the last place with 2^-24, so the hardware rounds.
  const uint32_t subnormal = float_bits(add(bits_float(magnitude), 0.5f)) - 0x3f000000u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return {static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? 0x7c00u : finite))};
}

TERSE_INLINE float canonical_nan(float) { return bits_float(kNanBits); }
TERSE_INLINE bfloat_t canonical_nan(bfloat_t) { return {kNanBits >> 16}; }
TERSE_INLINE half_t canonical_nan(half_t) { return {0x7e00u}; }

// How far two infinities in a word are below what carries into the sign's place.
TERSE_INLINE uint32_t past_infinity(bfloat_t) { return 0x007f007fu; }
TERSE_INLINE uint32_t past_infinity(half_t) { return 0x03ff03ffu; }

// NaNs among two 16-bit numbers in a word: their signs' places are set. Only their magnitudes are
// above infinity's.
template <class T>
TERSE_INLINE uint32_t nan_marks(uint32_t pair) {
  return ((pair & 0x7fff7fffu) + past_infinity(T{})) & 0x80008000u;
}

template <class T>
TERSE_INLINE uint32_t with_canonical_nans(uint32_t pair) {
  const uint32_t halves = (nan_marks<T>(pair) >> 15) * 0xffffu;
  return (pair & ~halves) | (canonical_nan(T{}).bits * 0x00010001u & halves);
}

template <class T>
TERSE_INLINE T from_float(float x) {
  const T number = from_number<T>(x);
  return (float_bits(x) & 0x7fffffffu) > kInfinityBits ? canonical_nan(number) : number;
}

}  // namespace terse::codec
