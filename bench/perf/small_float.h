// Floats of fewer than 32 bits, as bit patterns: rounding from double to nearest even, and back.
#ifndef TERSE_BENCH_PERF_SMALL_FLOAT_H_
#define TERSE_BENCH_PERF_SMALL_FLOAT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace terse::perf {

// kFinite: the all-ones exponent holds numbers too and only the all-ones pattern is NaN (e4m3).
template <int kExponent, int kMantissa, bool kFinite = false>
struct SmallFloat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kSign = 1u << (kBits - 1);
  static constexpr std::uint32_t kAllOnes = kSign - 1;
  static constexpr std::uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  static constexpr std::uint32_t kNan = kFinite ? kAllOnes : kInfinity | (1u << (kMantissa - 1));
  static constexpr std::uint32_t kOverflow = kFinite ? kNan : kInfinity;

  static std::uint32_t Encode(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint32_t sign = bits >> 63 != 0 ? kSign : 0;
    const double magnitude = std::fabs(value);
    if (std::isnan(value)) return sign | kNan;
    if (std::isinf(value)) return sign | kOverflow;
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (exponent < 1 - kBias) {
      // Subnormal here: a multiple of the smallest step. A carry into the exponent is right as is.
      const double steps = std::nearbyint(std::ldexp(magnitude, kBias - 1 + kMantissa));
      return sign | static_cast<std::uint32_t>(steps);
    }
    if (exponent > kBias + 1) return sign | kOverflow;
    constexpr int kDropped = 52 - kMantissa;
    std::uint64_t kept = bits & 0x7fffffffffffffff;
    kept += (std::uint64_t{1} << (kDropped - 1)) - 1 + (kept >> kDropped & 1);
    kept >>= kDropped;
    kept -= static_cast<std::uint64_t>(1023 - kBias) << kMantissa;
    const auto last_finite = kFinite ? kAllOnes - 1 : kInfinity - 1;
    return sign | (kept > last_finite ? kOverflow : static_cast<std::uint32_t>(kept));
  }

  static double Decode(std::uint32_t bits) {
    const double sign = bits & kSign ? -1.0 : 1.0;
    const std::uint32_t magnitude = bits & kAllOnes;
    const std::uint32_t field = magnitude >> kMantissa;
    const std::uint32_t fraction = magnitude & ((1u << kMantissa) - 1);
    if (kFinite ? magnitude == kAllOnes : magnitude > kInfinity) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (!kFinite && magnitude == kInfinity) return sign * std::numeric_limits<double>::infinity();
    if (field == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - kBias - kMantissa);
    const std::uint64_t wide = (static_cast<std::uint64_t>(field) + 1023 - kBias) << 52 |
                               static_cast<std::uint64_t>(fraction) << (52 - kMantissa);
    return sign * std::bit_cast<double>(wide);
  }
};

using Float16 = SmallFloat<5, 10>;
using Bfloat16 = SmallFloat<8, 7>;
using Float8E4M3 = SmallFloat<4, 3, true>;
using Float8E5M2 = SmallFloat<5, 2>;

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_SMALL_FLOAT_H_
