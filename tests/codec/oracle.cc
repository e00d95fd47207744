#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {
namespace {

const float kTiny = std::ldexp(1.0f, -118);
const float kNan = std::numeric_limits<float>::quiet_NaN();

// Codes and parameters of one block, before they are laid out.
struct Block {
  std::vector<int> codes;
  std::vector<float> params;
};

double round_half_even(double v) {
  const double below = std::floor(v), rest = v - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

float uniform(const Stream& stream, uint64_t element) {
  return static_cast<float>((random16(stream, element) + 0.5) / 65536);
}

float next_larger(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

int limited(double code, int low, int high) {
  return static_cast<int>(std::clamp<double>(code, low, high));
}

Block non_finite_block(size_t n, size_t params) {
  Block block{std::vector<int>(n, 0), std::vector<float>(params, 0.0f)};
  block.params[0] = kNan;
  return block;
}

// Section 4, "Symmetric".
Block encode_symmetric(const Spec& spec, const Stream& stream, uint64_t first,
                       const std::vector<float>& x) {
  const int q = (1 << (spec.bits - 1)) - 1;
  float peak = 0;
  for (float value : x) {
    if (!std::isfinite(value)) return non_finite_block(x.size(), 1);
    peak = std::max(peak, std::fabs(value));
  }
  if (peak < kTiny) return {std::vector<int>(x.size(), 0), {0.0f}};

  float inv = div(static_cast<float>(q), peak);
  if (mul(inv, peak) < static_cast<float>(q)) inv = next_larger(inv);
  Block block{{}, {peak}};
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
                  const std::vector<float>& x, float peak) {
  const int q = (1 << (spec.bits - 1)) - 1;
  float step = div(peak, static_cast<float>(q));
  if (mul(step, static_cast<float>(q)) > peak) step = std::nextafter(step, 0.0f);
  const float inv = div(1.0f, step);
  Block block{{}, {-0.0f, step}};
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
  float min = x[0], max = x[0], peak = 0;
  for (float value : x) {
    if (!std::isfinite(value)) return non_finite_block(x.size(), 2);
    min = std::min(min, value);
    max = std::max(max, value);
    peak = std::max(peak, std::fabs(value));
  }
  const float range = sub(max, min);
  if (range < kTiny) {
    return {std::vector<int>(x.size(), 0), {peak < kTiny ? 0.0f : min, 0.0f}};
  }
  if (peak >= std::ldexp(1.0f, 126)) return encode_wide(spec, stream, first, x, peak);

  const float step = div(range, static_cast<float>(levels));
  const float inv = div(1.0f, step);
  float base = min == 0 ? 0.0f : min;
  if (spec.rounding == Rounding::kShift) {
    base = add(min, mul(sub(uniform(stream, first), 0.5f), step));
  }
  Block block{{}, {base, step}};
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = mul(sub(x[i], base), inv);
    const double code = spec.rounding == Rounding::kStochastic
                            ? std::floor(add(v, uniform(stream, first + i)))
                            : round_half_even(v);
    block.codes.push_back(limited(code, 0, levels));
  }
  return block;
}

float decode_symmetric(const Spec& spec, int code, float peak) {
  const float q = static_cast<float>((1 << (spec.bits - 1)) - 1);
  if (!std::isfinite(peak)) return kNan;
  float step = div(peak, q);
  if (mul(step, q) < peak) step = next_larger(step);
  const float value = mul(static_cast<float>(code), step);
  if (value > peak) return peak;
  return value < -peak ? -peak : value;
}

float decode_min_max(const Spec& spec, int code, float base, float step) {
  if (!std::isfinite(base) || !std::isfinite(step)) return kNan;
  const bool wide = base == 0 && std::signbit(base);
  if (wide && code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
  return add(base, mul(static_cast<float>(code), step));
}

size_t code_bytes(const Spec& spec, size_t count) { return (count * spec.bits + 7) / 8; }
size_t params_offset(const Spec& spec, size_t count) {
  return (code_bytes(spec, count) + 3) / 4 * 4;
}
size_t params_per_block(const Spec& spec) { return spec.family == Family::kSymmetric ? 1 : 2; }

void put(Bytes& bytes, size_t offset, size_t size, uint64_t value) {
  for (size_t k = 0; k < size; ++k) bytes[offset + k] = static_cast<uint8_t>(value >> 8 * k);
}

uint64_t get(const Bytes& bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t k = 0; k < size; ++k) value |= uint64_t{bytes[offset + k]} << 8 * k;
  return value;
}

int nccl_number(Dtype dtype) {
  return dtype == Dtype::kFloat16 ? 6 : dtype == Dtype::kFloat32 ? 7 : 9;
}

}  // namespace

size_t size_of_body(const Spec& spec, size_t count) {
  const size_t blocks = (count + spec.block - 1) / spec.block;
  return params_offset(spec, count) + blocks * params_per_block(spec) * 4;
}

Bytes encode(const Spec& spec, const Stream& stream, const std::vector<float>& x) {
  Bytes body(size_of_body(spec, x.size()), 0);
  size_t parameter = params_offset(spec, x.size());
  for (size_t first = 0; first < x.size(); first += spec.block) {
    const size_t n = std::min<size_t>(spec.block, x.size() - first);
    const std::vector<float> part(x.begin() + first, x.begin() + first + n);
    const Block block = spec.family == Family::kSymmetric
                            ? encode_symmetric(spec, stream, first, part)
                            : encode_min_max(spec, stream, first, part);
    for (size_t i = 0; i < n; ++i) {
      for (int j = 0; j < spec.bits; ++j) {
        const size_t k = (first + i) * spec.bits + j;  // in the bit string
        if (block.codes[i] >> j & 1) body[k / 8] |= static_cast<uint8_t>(1 << k % 8);
      }
    }
    for (float value : block.params) {
      put(body, parameter, 4, narrow(Dtype::kFloat32, value));
      parameter += 4;
    }
  }
  return body;
}

std::vector<float> decode(const Spec& spec, const Bytes& body, size_t count, float factor) {
  std::vector<float> x;
  for (size_t i = 0; i < count; ++i) {
    int code = 0;
    for (int j = 0; j < spec.bits; ++j) {
      const size_t k = i * spec.bits + j;
      code |= (body[k / 8] >> k % 8 & 1) << j;
    }
    if (spec.family == Family::kSymmetric && code >= 1 << (spec.bits - 1)) code -= 1 << spec.bits;
    const size_t p = params_offset(spec, count) + i / spec.block * params_per_block(spec) * 4;
    const auto parameter = [&](size_t at) {
      return mul(widen(Dtype::kFloat32, static_cast<uint32_t>(get(body, at, 4))), factor);
    };
    if (spec.family == Family::kSymmetric) {
      x.push_back(decode_symmetric(spec, code, parameter(p)));
    } else {
      x.push_back(decode_min_max(spec, code, parameter(p), parameter(p + 4)));
    }
  }
  return x;
}

uint64_t check(const Bytes& packed) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < packed.size() / 4; ++i) {
    const uint64_t word = i == 6 || i == 7 ? 0 : get(packed, 4 * i, 4);  // the check's own bytes
    sum += (word ^ 0x9E3779B9) * (2 * i + 1);
  }
  return sum;
}

Bytes seal(const Spec& spec, Dtype dtype, size_t count, const Bytes& body) {
  Bytes packed(32 + body.size(), 0);
  std::copy_n("TRSE", 4, packed.begin());
  std::copy(body.begin(), body.end(), packed.begin() + 32);
  packed[4] = 2;
  packed[5] = spec.family == Family::kSymmetric ? 1 : 2;
  packed[6] = spec.bits;
  packed[7] = static_cast<uint8_t>(nccl_number(dtype));
  put(packed, 8, 4, spec.block);
  put(packed, 16, 8, count);
  put(packed, 24, 8, check(packed));
  return packed;
}

bool acceptable(const Bytes& packed) {
  if (packed.size() < 32 || !std::equal(packed.begin(), packed.begin() + 4, "TRSE")) return false;
  const uint64_t block = get(packed, 8, 4), count = get(packed, 16, 8);
  if (packed[4] != 2 || packed[5] < 1 || packed[5] > 2) return false;
  if (packed[6] < 2 || packed[6] > 8) return false;
  if (packed[7] != 6 && packed[7] != 7 && packed[7] != 9) return false;
  if (block < 32 || block > 4096 || block % 32 != 0 || get(packed, 12, 4) != 0) return false;
  if (count / 4 > packed.size()) return false;  // not even two bits for each; avoids overflow
  Spec spec;
  spec.family = packed[5] == 1 ? Family::kSymmetric : Family::kMinMax;
  spec.bits = packed[6];
  spec.block = static_cast<uint16_t>(block);
  return packed.size() == 32 + size_of_body(spec, count) && get(packed, 24, 8) == check(packed);
}

}  // namespace oracle
