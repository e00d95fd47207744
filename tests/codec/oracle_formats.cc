// The formats, each written from its paragraph of FORMAT.md's section 4.
#include "oracle_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace oracle {
namespace {

const float kTiny = std::ldexp(1.0f, -118);
const float kNan = std::numeric_limits<float>::quiet_NaN();

double round_half_even(double v) {
  const double below = std::floor(v), rest = v - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

bool bf16_params(const Spec& spec) { return spec.scale == Number::kBf16; }

float next_larger(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

int limited(double code, int low, int high) {
  return static_cast<int>(std::clamp<double>(code, low, high));
}

Block non_finite_block(const Spec& spec, size_t n) {
  Block block{std::vector<int>(n, 0), std::vector<float>(format(spec).params, 0.0f)};
  block.params[0] = bf16_params(spec) ? std::numeric_limits<float>::infinity() : kNan;
  return block;
}

float largest_magnitude(const std::vector<float>& x) {
  float absmax = 0;
  for (float value : x) absmax = std::max(absmax, std::fabs(value));
  return absmax;
}

bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

// "Parameters": the least bf16 that is not below x, or else the largest one.
float bf16_above(float x) {
  const uint32_t below = narrow(Dtype::kFloat32, x) >> 16;
  if (widen(Dtype::kBfloat16, below) >= x) return widen(Dtype::kBfloat16, below);
  return widen(Dtype::kBfloat16, std::min<uint32_t>(below + 1, 0x7f7f));
}

// Section 4, "Symmetric".
Block encode_symmetric(const Spec& spec, const Stream& stream, uint64_t first,
                       const std::vector<float>& x) {
  const int q = (1 << (spec.bits - 1)) - 1;
  float absmax = 0;
  for (float value : x) {
    if (!std::isfinite(value)) return non_finite_block(spec, x.size());
    absmax = std::max(absmax, std::fabs(value));
  }
  if (absmax < kTiny) return {std::vector<int>(x.size(), 0), {0.0f}};
  const float stored = bf16_params(spec) ? bf16_above(absmax) : absmax;
  absmax = std::max(absmax, stored);

  float inv = div(static_cast<float>(q), absmax);
  if (mul(inv, absmax) < static_cast<float>(q)) inv = next_larger(inv);
  Block block{{}, {stored}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(x[i], inv);
    const double code = spec.rounding == Rounding::kNearest
                            ? round_half_even(v)
                            : std::floor(add(v, uniform(stream, first + i)));
    block.codes.push_back(limited(code, -q, q));
  }
  return block;
}

// Section 4, "Wide blocks".
Block encode_wide(const Spec& spec, const Stream& stream, uint64_t first,
                  const std::vector<float>& x, float absmax) {
  const int q = (1 << (spec.bits - 1)) - 1;
  float scale = div(absmax, static_cast<float>(q));
  if (mul(scale, static_cast<float>(q)) > absmax) scale = std::nextafter(scale, 0.0f);
  const float inv = div(1.0f, scale);
  Block block{{}, {-0.0f, scale}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(x[i], inv);
    const double code = spec.rounding == Rounding::kStochastic
                            ? std::floor(add(v, uniform(stream, first + i)))
                            : round_half_even(v);
    block.codes.push_back(limited(code, -q, q));
  }
  return block;
}

// Section 4, "Min-max".
Block encode_min_max(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  const int levels = (1 << spec.bits) - 1;
  float min = x[0], max = x[0], absmax = 0;
  for (float value : x) {
    if (!std::isfinite(value)) return non_finite_block(spec, x.size());
    min = std::min(min, value);
    max = std::max(max, value);
    absmax = std::max(absmax, std::fabs(value));
  }
  const float range = sub(max, min);
  if (range < kTiny) {
    return {std::vector<int>(x.size(), 0), {absmax < kTiny ? 0.0f : min, 0.0f}};
  }
  if (absmax >= std::ldexp(1.0f, 126)) return encode_wide(spec, stream, first, x, absmax);

  const float scale = div(range, static_cast<float>(levels));
  const float inv = div(1.0f, scale);
  float zero = min == 0 ? 0.0f : min;
  if (spec.rounding == Rounding::kShift) {
    zero = add(min, mul(sub(uniform(stream, first), 0.5f), scale));
  }
  Block block{{}, {zero, scale}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(sub(x[i], zero), inv);
    const double code = spec.rounding == Rounding::kStochastic
                            ? std::floor(add(v, uniform(stream, first + i)))
                            : round_half_even(v);
    block.codes.push_back(limited(code, 0, levels));
  }
  return block;
}

float decode_symmetric(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float q = static_cast<float>((1 << (spec.bits - 1)) - 1), absmax = mul(params[0], factor);
  if (!std::isfinite(absmax)) return kNan;
  if (code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
  float scale = div(absmax, q);
  if (mul(scale, q) < absmax) scale = next_larger(scale);
  const float value = mul(static_cast<float>(code), scale);
  if (value > absmax) return absmax;
  return value < -absmax ? -absmax : value;
}

float decode_min_max(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float zero = mul(params[0], factor), scale = mul(params[1], factor);
  if (!std::isfinite(zero) || !std::isfinite(scale)) return kNan;
  const bool wide = params[0] == 0 && std::signbit(params[0]);
  if (wide && code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
  return add(zero, mul(static_cast<float>(code), scale));
}

// Section 4, "Fitted".
Block encode_fitted(const Spec& spec, const Stream&, uint64_t, const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const int h = 1 << (spec.bits - 1);
  const float min = *std::min_element(x.begin(), x.end());
  const float max = *std::max_element(x.begin(), x.end());
  const float extreme = std::fabs(min) < std::fabs(max) ? max : min;
  if (std::fabs(extreme) < kTiny) return {std::vector<int>(x.size(), 0), {0.0f}};

  const float whole = static_cast<float>(h);
  std::vector<int64_t> y;
  for (float value : x)
    y.push_back(static_cast<int64_t>(round_half_even(mul(value, div(whole, -extreme)) * 32.0)));
  float least = 0, reach = 0;
  for (int c = 0; c < 5; ++c) {
    const float t = static_cast<float>(c) * 0.375f;
    const double T = 32768.0 * c * 0.375 / h;
    const float r = div(whole, add(whole, t));
    int64_t sum = 0;
    for (int64_t value : y) {
      const double a =
          static_cast<double>(value) + std::floor((static_cast<double>(value) * T + 16384) / 32768);
      const double n = std::clamp<double>(std::floor((a + 16) / 32), -h, h - 1);
      sum += static_cast<int64_t>((a - 32 * n) * (a - 32 * n));
    }
    const float cost = mul(mul(static_cast<float>(sum), r), r);
    if (c != 0 && cost >= least) continue;
    least = cost;
    reach = mul(std::fabs(extreme), r);
  }
  const float magnitude = div(bf16_params(spec) ? bf16_above(reach) : reach, whole);
  const float scale = extreme > 0 ? -magnitude : magnitude;
  Block block{{}, {scale}};
  for (float value : x)
    block.codes.push_back(limited(round_half_even(mul(value, div(1, scale))), -h, h - 1));
  return block;
}

float decode_fitted(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float scale = mul(params[0], factor);
  if (!std::isfinite(scale)) return kNan;
  if (code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
  return code == 0 ? 0.0f : mul(static_cast<float>(code), scale);
}

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

template <const SmallFloat& f>
Block encode_fp8(const Spec& spec, const Stream& stream, uint64_t first,
                 const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float absmax = largest_magnitude(x), largest = f.numbers.back();
  if (absmax < kTinyScaled) return {std::vector<int>(x.size(), 0), {0.0f}};
  float scale = div(absmax, largest);
  if (mul(scale, largest) > absmax) scale = std::nextafter(scale, 0.0f);
  return scaled_block(f, spec, stream, first, x, scale, div(1.0f, scale));
}

template <const SmallFloat& f>
Block encode_mx(const Spec& spec, const Stream& stream, uint64_t first,
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

template <const SmallFloat& f>
float decode_scaled(const Spec&, int code, const std::vector<float>& params, float factor) {
  const float scale = mul(params[0], factor);
  return std::isfinite(scale) ? mul(decode_small(f, code), scale) : kNan;
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

// "Linear".
int linear_q(const Spec& spec) { return ((1 << (spec.bits - 1)) - 1) / spec.ranks; }

Block encode_linear(const Spec& spec, const Stream& stream, uint64_t first,
                    const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float absmax = largest_magnitude(x);
  const float stored = absmax < std::ldexp(1.0f, -110) ? 0.0f
                       : bf16_params(spec)             ? bf16_above(absmax)
                                                       : absmax;
  return {linear_codes(spec, stream, first, x, stored), {stored}};
}

float decode_linear(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float absmax = mul(params[0], factor);
  if (!std::isfinite(absmax)) return kNan;
  if (absmax == 0) return 0;
  const int q = linear_q(spec), zero = spec.ranks * q;
  const float limit = mul(absmax, spec.ranks);
  float scale = div(absmax, static_cast<float>(q));
  if (mul(scale, static_cast<float>(zero)) < limit) scale = next_larger(scale);
  return std::clamp(mul(static_cast<float>(code - zero), scale), -limit, limit);
}

// "Exponential".
int exponential_headroom(const Spec& spec) {
  int levels = 0;
  while (1 << levels < spec.ranks) ++levels;
  return 1 + levels;
}

Block encode_exponential(const Spec& spec, const Stream& stream, uint64_t first,
                         const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float absmax = largest_magnitude(x);
  const float stored = absmax < kTiny ? 0.0f : bf16_params(spec) ? bf16_above(absmax) : absmax;
  return {exponential_codes(spec, stream, first, x, stored), {stored}};
}

float decode_exponential(const Spec& spec, int code, const std::vector<float>& params,
                         float factor) {
  const float absmax = mul(params[0], factor);
  if (!std::isfinite(absmax)) return kNan;
  if (code % 128 == 0) return mul(absmax, code == 0 ? 0.0f : -0.0f);
  const float largest = std::numeric_limits<float>::max();
  float value = mul(absmax, std::ldexp(1.0f, exponential_headroom(spec) - code % 128));
  if (!std::isfinite(value) && std::isfinite(mul(absmax, spec.ranks))) value = largest;
  return code >= 128 ? -value : value;
}

// "Merging".
int merge_two(int a, int b, bool stochastic, uint32_t random) {
  if (a % 128 == 0 || b % 128 == 0) return b % 128 == 0 ? a : b;
  const int larger = a % 128 <= b % 128 ? a : b, d = std::abs(a % 128 - b % 128);
  const auto happens = [&](int j) {  // with a probability of 2^-j
    return stochastic ? j <= 16 && random < 1u << (16 - j) : j == 0;
  };
  if (a / 128 == b / 128) return happens(d) ? larger - 1 : larger;
  if (d == 0) return 0;
  return happens(d - 1) ? larger + 1 : larger;
}

// "Learned".
const std::vector<float>* learned_levels = nullptr;

std::vector<float> levels(const Spec& spec) {
  if (learned_levels != nullptr) return *learned_levels;
  const int n = 1 << spec.bits;
  std::vector<float> uniform;
  for (int i = 0; i < n; ++i)
    uniform.push_back(div(static_cast<float>(i), static_cast<float>(n - 1)));
  return uniform;
}

int learned_code(const std::vector<float>& l, float v, bool stochastic, float u) {
  const int last = static_cast<int>(l.size()) - 1;
  int code = 0;
  for (int i = 1; i <= last; ++i)
    if (v >= (stochastic ? l[i] : mul(add(l[i - 1], l[i]), 0.5f))) ++code;
  if (!stochastic || code == last) return code;
  const float distance = sub(l[code + 1], l[code]);
  const float d = distance == 0 ? 0 : div(1, distance);
  return add(mul(sub(v, l[code]), d), u) >= 1 ? code + 1 : code;
}

Block encode_learned(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float min = *std::min_element(x.begin(), x.end());
  const float max = *std::max_element(x.begin(), x.end());
  const float range = sub(max, min), absmax = largest_magnitude(x);
  if (range < kTiny) {
    return {std::vector<int>(x.size(), 0), {absmax < kTiny ? 0.0f : min, 0.0f}};
  }
  const bool wide = absmax >= std::ldexp(1.0f, 126);
  Block block{{}, {min == 0 ? 0.0f : min, range}};
  if (wide) block.params = {-0.0f, absmax};
  const float inv = div(1, block.params[1]);
  for (size_t i = 0; i < x.size(); ++i) {
    const float above = wide ? add(mul(x[i], 0.5f), mul(absmax, 0.5f)) : sub(x[i], block.params[0]);
    block.codes.push_back(learned_code(levels(spec), mul(above, inv),
                                       spec.rounding == Rounding::kStochastic,
                                       uniform(stream, first + i)));
  }
  return block;
}

float decode_learned(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float zero = mul(params[0], factor), range = mul(params[1], factor);
  if (!std::isfinite(zero) || !std::isfinite(range)) return kNan;
  const float l = levels(spec)[code];
  if (params[0] == 0 && std::signbit(params[0]))
    return mul(sub(mul(l, range), mul(range, 0.5f)), 2);
  return add(zero, mul(l, range));
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

template <Dtype dtype>
float decode_cast(const Spec&, int code, const std::vector<float>&, float factor) {
  return mul(widen(dtype, static_cast<uint32_t>(code)), factor);
}

const Format kFormats[] = {
    {1, 2, 8, 32, 4096, 1, true, false, 4, encode_symmetric, decode_symmetric},
    {2, 2, 8, 32, 4096, 2, false, false, 0, encode_min_max, decode_min_max},
    {3, 2, 8, 32, 4096, 1, true, false, 4, encode_fitted, decode_fitted},
    {4, 16, 16, 32, 32, 0, false, false, 0, encode_bf16, decode_cast<Dtype::kBfloat16>},
    {5, 16, 16, 32, 32, 0, false, false, 0, encode_fp16, decode_cast<Dtype::kFloat16>},
    {6, 8, 8, 32, 4096, 1, false, false, 0, encode_fp8<kE4M3>, decode_scaled<kE4M3>},
    {7, 8, 8, 32, 4096, 1, false, false, 0, encode_fp8<kE5M2>, decode_scaled<kE5M2>},
    {8, 8, 8, 32, 32, 1, false, true, 0, encode_mx<kE4M3>, decode_scaled<kE4M3>},
    {9, 6, 6, 32, 32, 1, false, true, 0, encode_mx<kE2M3>, decode_scaled<kE2M3>},
    {10, 4, 4, 32, 32, 1, false, true, 4, encode_mx<kE2M1>, decode_scaled<kE2M1>},
    {11, 4, 4, 4096, 4096, 1, false, false, 0, encode_nvfp4, decode_nvfp4, 16},
    {12, 8, 8, 32, 4096, 1, true, false, 0, encode_linear, decode_linear},
    {13, 16, 16, 32, 4096, 1, true, false, 0, encode_linear, decode_linear},
    {14, 8, 8, 32, 4096, 1, true, false, 0, encode_exponential, decode_exponential},
    {15, 2, 8, 32, 4096, 2, false, false, 0, encode_learned, decode_learned},
};

}  // namespace

WithLevels::WithLevels(std::vector<float> levels)
    : levels_(std::move(levels)), before_(std::exchange(learned_levels, &levels_)) {}

WithLevels::~WithLevels() { learned_levels = before_; }

std::vector<int> linear_codes(const Spec& spec, const Stream& stream, uint64_t first,
                              const std::vector<float>& x, float absmax) {
  if (absmax == 0 || !std::isfinite(absmax)) return std::vector<int>(x.size(), 0);
  const auto q = static_cast<float>(linear_q(spec));
  float inv = div(q, absmax);
  if (mul(inv, absmax) < q) inv = next_larger(inv);
  std::vector<int> codes;
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = std::clamp(mul(x[i], inv), -q, q);
    const double w = round_half_even(v);
    const float rest = sub(v, static_cast<float>(w));
    const bool draws = spec.rounding == Rounding::kStochastic;
    const double up = draws ? std::floor(add(rest, uniform(stream, first + i))) : 0;
    codes.push_back(static_cast<int>(w + up + q));
  }
  return codes;
}

std::vector<int> exponential_codes(const Spec& spec, const Stream& stream, uint64_t first,
                                   const std::vector<float>& x, float absmax) {
  if (absmax == 0 || !std::isfinite(absmax)) return std::vector<int>(x.size(), 0);
  const float inv = div(1.0f, absmax);
  std::vector<int> codes;
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = std::min(1.0f, std::fabs(mul(x[i], inv)));
    const bool subnormal = v < std::ldexp(1.0f, -126);
    const int k = subnormal ? -127 : std::ilogb(v);
    const double f = subnormal ? std::ldexp(double{v}, 126) : std::ldexp(double{v}, -k) - 1;
    const double u = (random16(stream, first + i) + 0.5) / 65536;
    const int up = spec.rounding == Rounding::kNearest ? f >= 0.5 : f + u >= 1;
    const int e = exponential_headroom(spec) - k - up;
    codes.push_back(e > 127 ? 0 : std::signbit(x[i]) ? 128 + e : e);
  }
  return codes;
}

int merged_code(const Spec& spec, const Stream& stream, uint64_t element, std::vector<int> codes) {
  // What is left of the ranks' codes, and of each the first rank that it is of.
  std::vector<uint32_t> ranks(codes.size());
  for (uint32_t r = 0; r < ranks.size(); ++r) ranks[r] = r;
  while (codes.size() > 1) {
    std::vector<int> merged;
    std::vector<uint32_t> first;
    for (size_t i = 0; i < codes.size(); i += 2) {
      first.push_back(ranks[i]);
      if (i + 1 == codes.size()) {
        merged.push_back(codes[i]);
        break;
      }
      Stream own = stream;
      own.rank += ranks[i + 1];
      const bool stochastic = spec.rounding == Rounding::kStochastic;
      merged.push_back(merge_two(codes[i], codes[i + 1], stochastic, random16(own, element)));
    }
    codes = merged;
    ranks = first;
  }
  return codes[0];
}

float uniform(const Stream& stream, uint64_t element) {
  return static_cast<float>((random16(stream, element) + 0.5) / 65536);
}

const Format* format(int number) {
  for (const Format& f : kFormats)
    if (f.number == number) return &f;
  return nullptr;
}

}  // namespace oracle
