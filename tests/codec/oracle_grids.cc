// Grids of all ranks: linear and exponential, and what merges codes of the latter.
#include "oracle_block.h"
#include "oracle_families.h"

namespace oracle {
namespace {

// "Linear".
int linear_q(const Spec& spec) { return ((1 << (spec.bits - 1)) - 1) / spec.ranks; }

// "Exponential".
int exponential_headroom(const Spec& spec) {
  int levels = 0;
  while (1 << levels < spec.ranks) ++levels;
  return 1 + levels;
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

}  // namespace

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
  const float largest_bf16 = std::ldexp(255.0f, 120);
  float value = mul(absmax, std::ldexp(1.0f, exponential_headroom(spec) - code % 128));
  if (value > largest_bf16 && std::isfinite(mul(absmax, spec.ranks)))
    value = std::max(absmax, largest_bf16);
  return code >= 128 ? -value : value;
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

}  // namespace oracle
