// The machine's conversions of small floats and the codec's own give the same codes and values: so
// it is open to each architecture which of them its kernels use.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/arch/arch.h"

namespace terse::kernels {
namespace {

using codec::E2M1;
using codec::E4M3;
using codec::E5M2;

template <class Format>
class Conversion : public testing::Test {
 public:
  static uint32_t portable(float x) { return Format::encode(x, codec::ToNearest{}); }
  static void expect_same(uint32_t bits) {
    const float x = std::bit_cast<float>(bits), y = -x;
    ASSERT_EQ(simt::to_codes<Format>(x, y), portable(x) | portable(y) << 8) << std::hex << bits;
  }
};

using Formats = testing::Types<E4M3, E5M2, E2M1>;
TYPED_TEST_SUITE(Conversion, Formats);

// A share of all magnitudes; there are no others, for elements are finite where codes are drawn.
TYPED_TEST(Conversion, OfNumbersIsTheSame) {
  constexpr uint32_t kStride = 257;
  for (uint32_t bits = 0; bits < codec::kInfinityBits; bits += kStride) {
    this->expect_same(bits);
    if (this->HasFatalFailure()) return;
  }
}

// Where the code changes: between neighbours, and beside that.
TYPED_TEST(Conversion, BetweenNeighboursIsTheSame) {
  for (uint32_t code = 0; code <= TypeParam::kLargestCode; ++code) {
    const float here = TypeParam::decode(code);
    const float next = code < TypeParam::kLargestCode ? TypeParam::decode(code + 1) : 2 * here;
    for (const float x : {here, (here + next) / 2})
      for (uint32_t step = 0; step <= 8; ++step) {
        const uint32_t bits = std::bit_cast<uint32_t>(x) + step;
        this->expect_same(std::max(bits, 4u) - 4);
        if (this->HasFatalFailure()) return;
      }
  }
}

TYPED_TEST(Conversion, OfEveryPairOfCodesIsTheSame) {
  for (uint32_t codes = 0; codes < 1u << 16; ++codes) {
    const uint32_t each[] = {codes & 0xff, codes >> 8};
    if (std::max(each[0], each[1]) >= 1u << TypeParam::kBits) continue;
    const uint32_t halves = simt::to_halves<TypeParam>(codes);
    for (int k = 0; k < 2; ++k) {
      const float value = simt::to_float(codec::half_t{static_cast<uint16_t>(halves >> 16 * k)});
      const float own = TypeParam::decode(each[k]);
      if (std::isnan(own))
        ASSERT_TRUE(std::isnan(value)) << codes;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(own)) << codes;
    }
  }
}

}  // namespace
}  // namespace terse::kernels
