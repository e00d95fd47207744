// Floats of few bits: fp8, mx, nvfp4 and the casts.
#include "oracle_block.h"
#include "oracle_families.h"

namespace oracle {
namespace {

// "Small floats": the numbers that are not negative, by code, and what lies above them.
struct SmallFloat {
  int bits;
  std::vector<float> numbers;
  std::vector<float> above;
};

SmallFloat small_float(int exponent_bits, int mantissa_bits, int largest, int infinities,
                       int nans) {
  SmallFloat f{1 + exponent_bits + mantissa_bits, {}, {}};
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (int code = 0; code <= largest; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code % (1 << mantissa_bits);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    f.numbers.push_back(
        std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - mantissa_bits));
  }
  f.above.assign(infinities, std::numeric_limits<float>::infinity());
  f.above.resize(infinities + nans, kNan);
  return f;
}

const SmallFloat kE5M2 = small_float(5, 2, 0x7b, 1, 3), kE4M3 = small_float(4, 3, 0x7e, 0, 1);
const SmallFloat kE2M3 = small_float(2, 3, 0x1f, 0, 0), kE2M1 = small_float(2, 1, 0x07, 0, 0);
const SmallFloat kHalf = small_float(5, 10, 0x7bff, 1, 1023);

// How far from numbers[code] to the next one.
double gap(const SmallFloat& f, size_t code) {
  const size_t below = code + 1 < f.numbers.size() ? code : code - 1;
  return double{f.numbers[below + 1]} - f.numbers[below];
}

// The code of a magnitude that is not above the largest number. `up`: whether so many units of the
// last place above the lower neighbour are rounded up.
template <class Up>
int small_code(const SmallFloat& f, float magnitude, Up up) {
  const auto next = std::upper_bound(f.numbers.begin(), f.numbers.end(), magnitude);
  const int code = static_cast<int>(next - f.numbers.begin()) - 1;
  // All of it, in units of the last place, as an integer and what is left.
  const double units = magnitude / gap(f, code), whole = std::floor(units);
  return up(static_cast<float>(units), static_cast<int>(whole)) ? code + 1 : code;
}

int encode_small(const SmallFloat& f, float v, bool stochastic, float u) {
  const float magnitude = std::min(std::fabs(v), f.numbers.back());
  const int code = small_code(f, magnitude, [&](float units, int whole) {
    return stochastic ? std::floor(add(units, u)) > static_cast<float>(whole)
                      : round_half_even(units) > whole;
  });
  return code + (std::signbit(v) ? 1 << (f.bits - 1) : 0);
}

float decode_small(const SmallFloat& f, int code) {
  const int magnitude = code % (1 << (f.bits - 1));
  const int numbers = static_cast<int>(f.numbers.size());
  const float value = magnitude < numbers ? f.numbers[magnitude] : f.above[magnitude - numbers];
  return code >> (f.bits - 1) ? -value : value;
}

const float kTinyScaled = std::ldexp(1.0f, -110);

// Codes of x times inv, for a scale that is known.
Block scaled_block(const SmallFloat& f, const Spec& spec, const Stream& stream, uint64_t first,
                   const std::vector<float>& x, float scale, float inv) {
  Block block{{}, {scale}};
  for (size_t i = 0; i < x.size(); ++i)
    block.codes.push_back(encode_small(f, mul(x[i], inv), spec.rounding == Rounding::kStochastic,
                                       uniform(stream, first + i)));
  return block;
}

Block encode_fp8(const SmallFloat& f, const Spec& spec, const Stream& stream, uint64_t first,
                 const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float absmax = largest_magnitude(x), largest = f.numbers.back();
  if (absmax < kTinyScaled) return {std::vector<int>(x.size(), 0), {0.0f}};
  float scale = div(absmax, largest);
  if (mul(scale, largest) > absmax) scale = std::nextafter(scale, 0.0f);
  return scaled_block(f, spec, stream, first, x, scale, div(1.0f, scale));
}

Block encode_mx(const SmallFloat& f, const Spec& spec, const Stream& stream, uint64_t first,
                const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float absmax = largest_magnitude(x), largest = f.numbers.back();
  if (absmax < kTinyScaled) return {std::vector<int>(x.size(), 0), {0.0f}};
  int exponent = std::ilogb(absmax) - std::ilogb(largest);
  const bool last_binade = absmax >= std::ldexp(1.0f, 127);
  if (spec.rounding == Rounding::kStochastic && std::ldexp(largest, exponent) < absmax &&
      !last_binade)
    ++exponent;
  return scaled_block(f, spec, stream, first, x, std::ldexp(1.0f, exponent),
                      std::ldexp(1.0f, -exponent));
}

float decode_scaled(const SmallFloat& f, int code, const std::vector<float>& params, float factor) {
  const float scale = mul(params[0], factor);
  return std::isfinite(scale) ? mul(decode_small(f, code), scale) : kNan;
}

}  // namespace

Block encode_fp8e4m3(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  return encode_fp8(kE4M3, spec, stream, first, x);
}
Block encode_fp8e5m2(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  return encode_fp8(kE5M2, spec, stream, first, x);
}
Block encode_mxfp8(const Spec& spec, const Stream& stream, uint64_t first,
                   const std::vector<float>& x) {
  return encode_mx(kE4M3, spec, stream, first, x);
}
Block encode_mxfp6(const Spec& spec, const Stream& stream, uint64_t first,
                   const std::vector<float>& x) {
  return encode_mx(kE2M3, spec, stream, first, x);
}
Block encode_mxfp4(const Spec& spec, const Stream& stream, uint64_t first,
                   const std::vector<float>& x) {
  return encode_mx(kE2M1, spec, stream, first, x);
}

float decode_e4m3(const Spec&, int code, const std::vector<float>& params, float factor) {
  return decode_scaled(kE4M3, code, params, factor);
}
float decode_e5m2(const Spec&, int code, const std::vector<float>& params, float factor) {
  return decode_scaled(kE5M2, code, params, factor);
}
float decode_e2m3(const Spec&, int code, const std::vector<float>& params, float factor) {
  return decode_scaled(kE2M3, code, params, factor);
}
float decode_e2m1(const Spec&, int code, const std::vector<float>& params, float factor) {
  return decode_scaled(kE2M1, code, params, factor);
}

// Section 4, "nvfp4".
Block encode_nvfp4(const Spec& spec, const Stream& stream, uint64_t first,
                   const std::vector<float>& x) {
  const size_t fine = (x.size() + 15) / 16;
  const bool finite = all_finite(x), stochastic = spec.rounding == Rounding::kStochastic;
  const float absmax = finite ? largest_magnitude(x) : 0;
  Block block{std::vector<int>(x.size(), 0), {finite ? 0.0f : kNan}, std::vector<int>(fine, 0)};
  if (!finite || absmax < std::ldexp(1.0f, -100)) return block;
  float scale = div(absmax, 2688);
  if (mul(scale, 2688) > absmax) scale = std::nextafter(scale, 0.0f);
  block.params[0] = scale;
  for (size_t k = 0; k < fine; ++k) {
    float m = 0;
    for (size_t i = 16 * k; i < std::min(16 * k + 16, x.size()); ++i)
      m = std::max(m, std::fabs(x[i]));
    const float v = std::min(mul(m, div(1, mul(scale, 6))), 448.0f);
    block.fine[k] =
        stochastic
            ? small_code(kE4M3, v,
                         [](float units, int whole) { return units > static_cast<float>(whole); })
            : encode_small(kE4M3, v, false, 0);
    if (block.fine[k] == 0) continue;
    const float inv = div(1, mul(kE4M3.numbers[block.fine[k]], scale));
    for (size_t i = 16 * k; i < std::min(16 * k + 16, x.size()); ++i)
      block.codes[i] = encode_small(kE2M1, mul(x[i], inv), stochastic, uniform(stream, first + i));
  }
  return block;
}

float decode_nvfp4(const Spec&, int code, const std::vector<float>& params, float factor) {
  const float scale = mul(params[0], factor);
  if (!std::isfinite(scale)) return kNan;
  return mul(decode_small(kE2M1, code),
             mul(decode_small(kE4M3, static_cast<int>(params[1])), scale));
}

// "Casts".
Block encode_bf16(const Spec& spec, const Stream& stream, uint64_t first,
                  const std::vector<float>& x) {
  Block block;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t nearest = narrow(Dtype::kBfloat16, x[i]);
    const uint32_t either = (narrow(Dtype::kFloat32, x[i]) + random16(stream, first + i)) / 65536;
    const bool draws = spec.rounding == Rounding::kStochastic && std::isfinite(x[i]);
    block.codes.push_back(static_cast<int>(draws ? either : nearest));
  }
  return block;
}

Block encode_fp16(const Spec& spec, const Stream& stream, uint64_t first,
                  const std::vector<float>& x) {
  Block block;
  for (size_t i = 0; i < x.size(); ++i) {
    const float magnitude = std::fabs(x[i]);
    int code = static_cast<int>(narrow(Dtype::kFloat16, x[i]));
    if (spec.rounding == Rounding::kStochastic && magnitude < 65536) {
      const float u = static_cast<float>(random16(stream, first + i) / 8) / 8192;
      code = small_code(kHalf, magnitude, [&](float units, int whole) {
        return std::floor(add(units, u)) > static_cast<float>(whole);
      });
      if (std::signbit(x[i])) code += 0x8000;
    } else if (spec.rounding == Rounding::kStochastic && std::isfinite(x[i])) {
      code = std::signbit(x[i]) ? 0xfc00 : 0x7c00;
    }
    block.codes.push_back(code);
  }
  return block;
}

float decode_bf16(const Spec&, int code, const std::vector<float>&, float factor) {
  return mul(widen(Dtype::kBfloat16, static_cast<uint32_t>(code)), factor);
}
float decode_fp16(const Spec&, int code, const std::vector<float>&, float factor) {
  return mul(widen(Dtype::kFloat16, static_cast<uint32_t>(code)), factor);
}

}  // namespace oracle
