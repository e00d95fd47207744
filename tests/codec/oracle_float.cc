// FORMAT.md, section 1: the element types, by exact arithmetic on their values.
#include <cmath>
#include <cstring>
#include <limits>

#include "oracle.h"

namespace oracle {
namespace {

// A binary interchange format: sign, exponent, and `fraction` bits after the leading one.
struct Format {
  int exponent_bits;
  int fraction;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int largest_field() const { return (1 << exponent_bits) - 1; }  // infinity and NaN
  int sign_bit() const { return exponent_bits + fraction; }
};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return {5, 10};
    case Dtype::kBfloat16:
      return {8, 7};
    default:
      return {8, 23};
  }
}

double round_half_even(double v) {
  const double below = std::floor(v), rest = v - below;
  if (rest < 0.5) return below;
  if (rest > 0.5) return below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

}  // namespace

float widen(Dtype dtype, uint32_t bits) {
  const Format f = format_of(dtype);
  const int field = (bits >> f.fraction) & f.largest_field();
  const double fraction = bits & ((1u << f.fraction) - 1);
  const double sign = (bits >> f.sign_bit()) & 1 ? -1 : 1;
  if (field == f.largest_field()) {
    return fraction == 0 ? static_cast<float>(sign * std::numeric_limits<double>::infinity())
                         : std::numeric_limits<float>::quiet_NaN();
  }
  // A subnormal has no leading one and the exponent of field 1.
  const double significand = field == 0 ? fraction : fraction + std::ldexp(1, f.fraction);
  const int exponent = (field == 0 ? 1 : field) - f.bias() - f.fraction;
  return static_cast<float>(sign * std::ldexp(significand, exponent));
}

uint32_t narrow(Dtype dtype, float value) {
  const Format f = format_of(dtype);
  const uint32_t infinity = static_cast<uint32_t>(f.largest_field()) << f.fraction;
  if (std::isnan(value)) return infinity | 1u << (f.fraction - 1);
  const uint32_t sign = std::signbit(value) ? 1u << f.sign_bit() : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;

  // The spacing of the format's numbers about this magnitude; below the normal range it stays.
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - f.bias()) exponent = 1 - f.bias();
  double n = round_half_even(std::ldexp(magnitude, f.fraction - exponent));
  if (n == std::ldexp(1, f.fraction + 1)) {  // rounded up to the next power of two
    n /= 2;
    ++exponent;
  }
  if (exponent > f.bias()) return sign | infinity;
  const double one = std::ldexp(1, f.fraction);
  if (n < one) return sign | static_cast<uint32_t>(n);  // subnormal or zero
  return sign | static_cast<uint32_t>(exponent + f.bias()) << f.fraction |
         static_cast<uint32_t>(n - one);
}

float add(float a, float b) { return static_cast<float>(static_cast<double>(a) + b); }
float sub(float a, float b) { return static_cast<float>(static_cast<double>(a) - b); }
float mul(float a, float b) { return static_cast<float>(static_cast<double>(a) * b); }
float div(float a, float b) { return static_cast<float>(static_cast<double>(a) / b); }

Bytes to_memory(Dtype dtype, const std::vector<float>& x) {
  const size_t size = dtype == Dtype::kFloat32 ? 4 : 2;
  Bytes memory;
  for (float value : x) {
    const uint32_t bits = narrow(dtype, value);
    for (size_t k = 0; k < size; ++k) memory.push_back(static_cast<uint8_t>(bits >> 8 * k));
  }
  return memory;
}

std::vector<float> from_memory(Dtype dtype, const Bytes& memory) {
  const size_t size = dtype == Dtype::kFloat32 ? 4 : 2;
  std::vector<float> x;
  for (size_t i = 0; i + size <= memory.size(); i += size) {
    uint32_t bits = 0;
    for (size_t k = 0; k < size; ++k) bits |= static_cast<uint32_t>(memory[i + k]) << 8 * k;
    x.push_back(widen(dtype, bits));
  }
  return x;
}

}  // namespace oracle
