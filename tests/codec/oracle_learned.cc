// Levels that are learned.
#include <utility>

#include "oracle_block.h"
#include "oracle_families.h"

namespace oracle {
namespace {

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

}  // namespace

Block encode_learned(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x) {
  if (!all_finite(x)) return non_finite_block(spec, x.size());
  const float min = *std::min_element(x.begin(), x.end());
  const float max = *std::max_element(x.begin(), x.end());
  const float range = sub(max, min), absmax = largest_magnitude(x);
  if (range < kTiny) {
    return {std::vector<int>(x.size(), 0), {absmax < kTiny ? 0.0f : min, 0.0f}};
  }
  if (has_zero(x) || is_wide(x)) return symmetric_codes(spec, stream, first, x);
  Block block{{}, {min, range}};
  const float inv = div(1, range);
  for (size_t i = 0; i < x.size(); ++i)
    block.codes.push_back(learned_code(levels(spec), mul(sub(x[i], min), inv),
                                       spec.rounding == Rounding::kStochastic,
                                       uniform(stream, first + i)));
  return block;
}

float decode_learned(const Spec& spec, int code, const std::vector<float>& params, float factor) {
  const float zero = mul(params[0], factor), range = mul(params[1], factor);
  if (!std::isfinite(zero) || !std::isfinite(range)) return kNan;
  if (!is_symmetric(params)) return add(zero, mul(levels(spec)[code], range));
  if (code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
  return mul(static_cast<float>(code), range);
}

WithLevels::WithLevels(std::vector<float> levels)
    : levels_(std::move(levels)), before_(std::exchange(learned_levels, &levels_)) {}

WithLevels::~WithLevels() { learned_levels = before_; }

}  // namespace oracle
