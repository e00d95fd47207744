// How a block's parameters are stored (FORMAT.md, section 3).
#pragma once

#include "codec/portable.h"

namespace terse::codec {

enum class Number : uint8_t { kFp32 = 0, kBf16 = 1, kE8M0 = 2 };

TERSE_INLINE constexpr size_t number_bytes(Number n) {
  return n == Number::kFp32 ? 4 : n == Number::kBf16 ? 2 : 1;
}

// The bits that are stored of x, which must be a number of the kind: a bf16, or a power of two from
// 2^-126 on (or 0, which is stored as 2^-127), or not finite.
TERSE_INLINE uint32_t number_bits(Number n, float x) {
  const uint32_t bits = float_bits(x);
  if (n == Number::kFp32) return bits;
  return n == Number::kBf16 ? bits >> 16 : bits >> 23;
}

TERSE_INLINE float number_of(Number n, uint32_t bits) {
  if (n == Number::kFp32) return bits_float(bits);
  if (n == Number::kBf16) return bits_float(bits << 16);
  return bits_float(bits == 0 ? 0x00400000u : bits == 0xff ? kNanBits : bits << 23);
}

constexpr uint32_t kLargestBf16Bits = 0x7f7f0000u;  // finite, as fp32

// Number that stands for a block that is not finite.
TERSE_INLINE float unsound_number(Number n) {
  return bits_float(n == Number::kBf16 ? kInfinityBits : kNanBits);
}

// x, which is finite and not negative, as a number of the kind: rounded up, but not to infinity.
TERSE_INLINE float rounded_up(Number n, float x) {
  if (n != Number::kBf16) return x;
  const uint32_t up = (float_bits(x) + 0xffffu) & 0xffff0000u;
  return bits_float(up < kInfinityBits ? up : kLargestBf16Bits);
}

}  // namespace terse::codec
