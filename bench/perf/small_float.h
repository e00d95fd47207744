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
    const std::uint32_t sign = bits >> 63 != 0 ? kSign : 0;
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return sign | kNan;
    if (std::isinf(value)) return sign | kOverflow;
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (exponent < 1 - kBias) {
      // Subnormal here: a multiple of the smallest step. A carry into the exponent is right as is.
      const double steps = std::nearbyint(std::ldexp(magnitude, kBias - 1 + mantissa_bits));
      return sign | static_cast<std::uint32_t>(steps);
    }
    if (exponent > kBias + 1) return sign | kOverflow;
    constexpr int kDropped = 52 - mantissa_bits;
    std::uint64_t kept = bits & 0x7fffffffffffffff;
    kept += (std::uint64_t{1} << (kDropped - 1)) - 1 + (kept >> kDropped & 1);
    kept >>= kDropped;
    kept -= static_cast<std::uint64_t>(1023 - kBias) << mantissa_bits;
    const auto last_finite = finite ? kAllOnes - 1 : kInfinity - 1;
    return sign | (kept > last_finite ? kOverflow : static_cast<std::uint32_t>(kept));
  }

  static double decode(std::uint32_t bits) {
    const double sign = bits & kSign ? -1.0 : 1.0;
    const std::uint32_t magnitude = bits & kAllOnes;
    const std::uint32_t field = magnitude >> mantissa_bits;
    const std::uint32_t fraction = magnitude & ((1u << mantissa_bits) - 1);
    if (finite ? magnitude == kAllOnes : magnitude > kInfinity) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (!finite && magnitude == kInfinity) return sign * std::numeric_limits<double>::infinity();
    if (field == 0)
      return sign * std::ldexp(static_cast<double>(fraction), 1 - kBias - mantissa_bits);
    const std::uint64_t wide = (static_cast<std::uint64_t>(field) + 1023 - kBias) << 52 |
                               static_cast<std::uint64_t>(fraction) << (52 - mantissa_bits);
    return sign * std::bit_cast<double>(wide);
  }
};

using Float16 = SmallFloat<5, 10>;
using Bfloat16 = SmallFloat<8, 7>;
using Float8E4M3 = SmallFloat<4, 3, true>;
using Float8E5M2 = SmallFloat<5, 2>;

}  // namespace terse::perf
