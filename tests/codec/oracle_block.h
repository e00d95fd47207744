// What the formats of FORMAT.md's section 4 share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "oracle_formats.h"

namespace oracle {

inline const float kTiny = std::ldexp(1.0f, -118);
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline double round_half_even(double v) {
  const double below = std::floor(v), rest = v - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

inline bool bf16_params(const Spec& spec) { return spec.scale == Number::kBf16; }

inline float next_larger(float x) {
  return std::nextafter(x, std::numeric_limits<float>::infinity());
}

inline int limited(double code, int low, int high) {
  return static_cast<int>(std::clamp<double>(code, low, high));
}

inline Block non_finite_block(const Spec& spec, size_t n) {
  Block block{std::vector<int>(n, 0), std::vector<float>(format(spec).params, 0.0f)};
  block.params[0] = bf16_params(spec) ? std::numeric_limits<float>::infinity() : kNan;
  return block;
}

inline float largest_magnitude(const std::vector<float>& x) {
  float absmax = 0;
  for (float value : x) absmax = std::max(absmax, std::fabs(value));
  return absmax;
}

inline bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

inline bool has_zero(const std::vector<float>& x) {
  return std::find(x.begin(), x.end(), 0.0f) != x.end();
}

// "Symmetric codes": of blocks that are wide, and others; they are known by their zero.
inline bool is_wide(const std::vector<float>& x) {
  return largest_magnitude(x) >= std::ldexp(1.0f, 126);
}
inline bool is_symmetric(const std::vector<float>& params) {
  return params[0] == 0 && std::signbit(params[0]);
}

// "Parameters": the least bf16 that is not below x, or else the largest one.
inline float bf16_above(float x) {
  const uint32_t below = narrow(Dtype::kFloat32, x) >> 16;
  if (widen(Dtype::kBfloat16, below) >= x) return widen(Dtype::kBfloat16, below);
  return widen(Dtype::kBfloat16, std::min<uint32_t>(below + 1, 0x7f7f));
}

}  // namespace oracle
