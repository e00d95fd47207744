// Codes of symmetric blocks by random rounding, which has no limits on GPUs but one: none leaves
// -q..q, and they are those that limits would give.
#include "codec/codecs/symmetric.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace terse::codec {
namespace {

int code_of(uint32_t word, int bits) {
  const int shift = 32 - bits;
  return static_cast<int32_t>(word << shift) >> shift;
}

// The code with the largest and the least random number, of the element that has the absmax.
void expect_in_range(float absmax, const Form& form) {
  const int q = symmetric_range(form.bits).high;
  const auto quantizer = Symmetric::quantizer(Symmetric::params({absmax}, form, 0), form);
  const StochasticSymmetricCoder<Symmetric::Quantizer> coder{quantizer, form.bits};
  for (const float x : {absmax, -absmax})
    for (const uint16_t random : {0, 0xffff}) {
      const float units = mul(x, quantizer.inverse);
      const int floor = integer_below(add(units, uniform(random)));
      ASSERT_EQ(code_of(coder(x, random), form.bits), std::clamp(floor, -q, q))
          << x << " in " << form.bits << " bits, random " << random;
    }
}

TEST(Symmetric, CodesOfOneAreInRange) { expect_in_range(1.0f, {.bits = 8}); }

TEST(Symmetric, StochasticCodesNeverLeaveTheRange) {
  // The inverse of a block's scale is subnormal from exponent 253 on.
  for (const Number scale : {Number::kFp32, Number::kBf16})
    for (int bits = kMinBits; bits <= kMaxBits; ++bits)
      for (const uint32_t exponent : {24u, 127u, 253u, 254u})
        for (uint32_t mantissa = 0; mantissa < 1 << 23; mantissa += 4099)
          expect_in_range(bits_float(exponent << 23 | mantissa), {.bits = bits, .scale = scale});
}

// What the one limit is for: 127 and a last place, and nearly 1, are 128.
TEST(Symmetric, SomeCodesOfEightBitsAreLimited) {
  const Form form{.bits = 8};
  int limited = 0;
  for (uint32_t mantissa = 0; mantissa < 1 << 23; mantissa += 101) {
    const float absmax = bits_float(0x3f800000u | mantissa);
    const auto quantizer = Symmetric::quantizer(Symmetric::params({absmax}, form, 0), form);
    limited += add(mul(absmax, quantizer.inverse), uniform(0xffff)) >= 128.0f;
  }
  EXPECT_GT(limited, 0);
}

}  // namespace
}  // namespace terse::codec
