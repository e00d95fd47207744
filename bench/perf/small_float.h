// Floats of fewer than 32 bits, as bit patterns: rounding from double to nearest even, and back.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace terse::perf {

// finite: the all-ones exponent holds numbers too and only the all-ones pattern is NaN (e4m3).
template <int exponent_bits, int mantissa_bits, bool finite = false>
struct SmallFloat {
  static constexpr int kBits = 1 + exponent_bits + mantissa_bits;
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t kSign = 1u << (kBits - 1);
  static constexpr std::uint32_t kAllOnes = kSign - 1;
  static constexpr std::uint32_t kInfinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  static constexpr std::uint32_t kNan = finite ? kAllOnes : kInfinity | (1u << (mantissa_bits - 1));
  static constexpr std::uint32_t kOverflow = finite ? kNan : kInfinity;

  static std::uint32_t encode(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63) << (kBits - 1);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (exponent < 1 - kBias) {
      // Subnormal here: a multiple of the smallest step. A carry into the exponent is right as is.
      const double steps =
          std::nearbyint(std::fabs(value) * power_of_two(kBias - 1 + mantissa_bits));
      return sign | static_cast<std::uint32_t>(steps);
    }
    if (exponent > kBias + 1) return sign | (std::isnan(value) ? kNan : kOverflow);
    std::uint64_t kept = bits & 0x7fffffffffffffff;
    kept += (std::uint64_t{1} << (kDropped - 1)) - 1 + (kept >> kDropped & 1);
    kept >>= kDropped;
    kept -= static_cast<std::uint64_t>(1023 - kBias) << mantissa_bits;
    const auto last_finite = finite ? kAllOnes - 1 : kInfinity - 1;
    return sign | (kept > last_finite ? kOverflow : static_cast<std::uint32_t>(kept));
  }

  static double decode(std::uint32_t bits) {
    const std::uint64_t sign = static_cast<std::uint64_t>(bits >> (kBits - 1) & 1) << 63;
    const std::uint32_t magnitude = bits & kAllOnes;
    if (finite ? magnitude == kAllOnes : magnitude > kInfinity) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (!finite && magnitude == kInfinity) {
      return std::bit_cast<double>(sign | kInfinityBits);
    }
    // The same fields of a double, whose bias is another: subnormal ones, too.
    const auto fields = static_cast<std::uint64_t>(magnitude) << kDropped;
    return std::bit_cast<double>(fields | sign) * power_of_two(1023 - kBias);
  }

 private:
  static constexpr int kDropped = 52 - mantissa_bits;
  static constexpr std::uint64_t kInfinityBits = std::uint64_t{0x7ff} << 52;

  static constexpr double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
};

using Float16 = SmallFloat<5, 10>;
using Bfloat16 = SmallFloat<8, 7>;
using Float8E4M3 = SmallFloat<4, 3, true>;
using Float8E5M2 = SmallFloat<5, 2>;

}  // namespace terse::perf
