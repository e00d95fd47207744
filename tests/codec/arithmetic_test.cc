// The arithmetic that stands in for conversions, wherever it is used: against conversions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "codec/block.h"
#include "codec/draw.h"

namespace terse::codec {
namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

TEST(Arithmetic, EveryUniformNumber) {
  for (uint32_t r = 0; r < 65536; ++r) {
    const float expected = (static_cast<float>(r) + 0.5f) / 65536.0f;
    ASSERT_EQ(bits_of(uniform(static_cast<uint16_t>(r))), bits_of(expected)) << r;
  }
}

// Zero, too, is the same zero.
TEST(Arithmetic, EveryCodeAsANumber) {
  for (uint32_t code = 0; code < 256; ++code) {
    for (uint32_t less : {0, 2, 4, 8, 16, 32, 64, 128}) {
      const int number = static_cast<int>(code) - static_cast<int>(less);
      ASSERT_EQ(bits_of(integer_less(code, less)), bits_of(static_cast<float>(number)))
          << code << " - " << less;
    }
  }
}

// Ties, their neighbours and fractions of all sizes.
TEST(Arithmetic, Rounding) {
  for (int integer = -300; integer <= 300; ++integer) {
    for (int eighth = 0; eighth < 8; ++eighth) {
      const float x = static_cast<float>(integer) + static_cast<float>(eighth) / 8.0f;
      for (float near : {x, std::nextafter(x, 1e9f), std::nextafter(x, -1e9f), x + 0x1p-20f}) {
        ASSERT_EQ(round_nearest(near), static_cast<int>(std::nearbyint(near))) << near;
        ASSERT_EQ(round_down(near), static_cast<int>(std::floor(near))) << near;
      }
    }
  }
}

// A reciprocal or a step that fell short is the next fp32, of either sign.
TEST(Arithmetic, NextIf) {
  for (float x : {1.0f, 0x1p-126f, 127.0f / 3.0f, std::nextafter(2.0f, 0.0f)}) {
    EXPECT_EQ(next_if(true, x), std::nextafter(x, INFINITY));
    EXPECT_EQ(next_if(true, -x), std::nextafter(-x, -INFINITY));
    EXPECT_EQ(next_if(false, x), x);
  }
}

}  // namespace
}  // namespace terse::codec
