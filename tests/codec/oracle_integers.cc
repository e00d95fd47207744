// Integers: symmetric, min-max and fitted.
#include "oracle_block.h"
#include "oracle_families.h"

namespace oracle {

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

// Section 4, "Symmetric codes".
Block symmetric_codes(const Spec& spec, const Stream& stream, uint64_t first,
                      const std::vector<float>& x) {
  const int q = (1 << (spec.bits - 1)) - 1;
  const float absmax = largest_magnitude(x);
  float scale = div(absmax, static_cast<float>(q));
  if (mul(scale, static_cast<float>(q)) > absmax) scale = std::nextafter(scale, 0.0f);
  const float inv = div(1.0f, scale);
  Block block{{}, {-0.0f, scale}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(x[i], inv);
    double code = round_half_even(v);
    if (spec.rounding == Rounding::kStochastic)
      code = std::floor(add(v, uniform(stream, first + i)));
    if (spec.rounding == Rounding::kShift)
      code = std::floor(add(v, spread_uniform(stream, first, i)));
    block.codes.push_back(limited(code, -q, q));
  }
  return block;
}

// Section 4, "Min-max".
Block encode_min_max(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const int levels = (1 << spec.bits) - 1;
  const float min = *std::min_element(x.begin(), x.end());
  const float max = *std::max_element(x.begin(), x.end());
  const float range = sub(max, min), absmax = largest_magnitude(x);
  if (range < kTiny) {
    return {std::vector<int>(x.size(), 0), {absmax < kTiny ? 0.0f : min, 0.0f}};
  }
  const bool both_signs = min < 0 && max > 0;
  if (is_wide(x) || (both_signs && has_zero(x))) return symmetric_codes(spec, stream, first, x);

  float zero = max <= 0 ? max : min, scale = div(range, static_cast<float>(levels));
  if (max <= 0) scale = -scale;
  if (zero == 0) zero = 0.0f;
  const float inv = div(1.0f, scale);
  // "Shift".
  const bool shifts = spec.rounding == Rounding::kShift, moves = shifts && both_signs;
  if (moves) zero = add(min, mul(sub(uniform(stream, first), 0.5f), scale));
  Block block{{}, {zero, scale}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(sub(x[i], zero), inv);
    double code = round_half_even(v);
    if (spec.rounding == Rounding::kStochastic)
      code = std::floor(add(v, uniform(stream, first + i)));
    else if (shifts && !moves)
      code = std::floor(add(v, spread_uniform(stream, first, i)));
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
  if (is_symmetric(params) && code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
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

}  // namespace oracle
