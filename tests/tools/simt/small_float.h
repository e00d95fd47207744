// The conversions of small floats as the PTX manual has them (cvt, .satfinite): written apart from
// the codec, whose own are held to be the same.
#pragma once

#include <cmath>
#include <cstdint>

namespace terse::simt::internal {

// To nearest, ties to even; beyond the largest number that; of NaN the code `nan`.
inline uint32_t convert(float x, int mantissa_bits, int least_exponent, float largest, uint32_t nan,
                        uint32_t sign) {
  if (std::isnan(x)) return nan;
  const double magnitude = std::fmin(std::fabs(static_cast<double>(x)), largest);
  int exponent = magnitude == 0 ? least_exponent : std::ilogb(magnitude);
  if (exponent < least_exponent) exponent = least_exponent;
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const auto code = static_cast<uint32_t>(units) +
                    static_cast<uint32_t>((exponent - least_exponent) << mantissa_bits);
  return code | (std::signbit(x) ? sign : 0);
}

inline float number(uint32_t magnitude, int mantissa_bits, int least_exponent) {
  const uint32_t one = 1u << mantissa_bits, field = magnitude >> mantissa_bits;
  const uint32_t units = field == 0 ? magnitude : magnitude % one + one;
  const int exponent = least_exponent + static_cast<int>(field == 0 ? 0 : field - 1);
  return std::ldexp(static_cast<float>(units), exponent - mantissa_bits);
}

}  // namespace terse::simt::internal
