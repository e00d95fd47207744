#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle_formats.h"

namespace oracle {
namespace {

size_t code_bytes(const Spec& spec, size_t count) { return (count * spec.bits + 7) / 8; }
size_t params_offset(const Spec& spec, size_t count) {
  return (code_bytes(spec, count) + 3) / 4 * 4;
}
void put(Bytes& bytes, size_t offset, size_t size, uint64_t value) {
  for (size_t k = 0; k < size; ++k) bytes[offset + k] = static_cast<uint8_t>(value >> 8 * k);
}

uint64_t get(const Bytes& bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t k = 0; k < size; ++k) value |= uint64_t{bytes[offset + k]} << 8 * k;
  return value;
}

size_t param_bytes(const Spec& spec) {
  return spec.scale == Number::kFp32 ? 4 : spec.scale == Number::kBf16 ? 2 : 1;
}

// "Parameters", section 3.
uint64_t stored(const Spec& spec, float value) {
  if (spec.scale == Number::kFp32) return narrow(Dtype::kFloat32, value);
  if (spec.scale == Number::kBf16) return narrow(Dtype::kBfloat16, value);
  if (std::isnan(value)) return 255;
  return value == 0 ? 0 : static_cast<uint64_t>(std::ilogb(value) + 127);
}

float parameter(const Spec& spec, const Bytes& body, size_t at) {
  const auto bits = static_cast<uint32_t>(get(body, at, param_bytes(spec)));
  if (spec.scale == Number::kFp32) return widen(Dtype::kFloat32, bits);
  if (spec.scale == Number::kBf16) return widen(Dtype::kBfloat16, bits);
  return bits == 255 ? std::numeric_limits<float>::quiet_NaN()
                     : std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

int nccl_number(Dtype dtype) {
  return dtype == Dtype::kFloat16 ? 6 : dtype == Dtype::kFloat32 ? 7 : 9;
}

}  // namespace

// "Finer scales".
size_t fine_bytes(const Spec& spec, size_t n) {
  const size_t fine = format(spec).fine;
  return fine == 0 ? 0 : (n + fine - 1) / fine;
}

// Of the blocks of the first `count` elements.
size_t params_of(const Spec& spec, size_t count) {
  const size_t whole = count / spec.block, rest = count % spec.block;
  const size_t own = format(spec).params * param_bytes(spec);
  return whole * (own + fine_bytes(spec, spec.block)) +
         (rest == 0 ? 0 : own + fine_bytes(spec, rest));
}

size_t size_of_body(const Spec& spec, size_t count) {
  return params_offset(spec, count) + (params_of(spec, count) + 3) / 4 * 4;
}

// "Transform", of the whole groups of n.
void mix(std::vector<float>& x, size_t n) {
  for (size_t first = 0; first + n <= x.size(); first += n) {
    for (size_t apart = 1; apart < n; apart *= 2) {
      for (size_t i = 0; i < n; ++i) {
        if (i / apart % 2 != 0) continue;
        const float a = x[first + i], b = x[first + i + apart];
        x[first + i] = add(a, b);
        x[first + i + apart] = sub(a, b);
      }
    }
  }
}

std::vector<float> transformed(const Spec& spec, std::vector<float> x) {
  if (spec.hadamard == 0) return x;
  const size_t whole = x.size() / spec.hadamard * spec.hadamard;
  for (size_t i = 0; i < x.size(); ++i) x[i] = div(x[i], i < whole ? 32 : 8);
  mix(x, spec.hadamard);
  return x;
}

std::vector<float> restored(const Spec& spec, std::vector<float> y) {
  if (spec.hadamard == 0) return y;
  mix(y, spec.hadamard);
  for (size_t i = y.size() / spec.hadamard * spec.hadamard; i < y.size(); ++i) y[i] = mul(y[i], 8);
  return y;
}

Bytes encode_transformed(const Spec& spec, const Stream& stream, const std::vector<float>& y) {
  Bytes body(size_of_body(spec, y.size()), 0);
  size_t parameter = params_offset(spec, y.size());
  for (size_t first = 0; first < y.size(); first += spec.block) {
    const size_t n = std::min<size_t>(spec.block, y.size() - first);
    const std::vector<float> part(y.begin() + first, y.begin() + first + n);
    const Block block = format(spec).encode(spec, stream, first, part);
    for (size_t i = 0; i < n; ++i) {
      for (int j = 0; j < spec.bits; ++j) {
        const size_t k = (first + i) * spec.bits + j;  // in the bit string
        if (block.codes[i] >> j & 1) body[k / 8] |= static_cast<uint8_t>(1 << k % 8);
      }
    }
    for (float value : block.params) {
      put(body, parameter, param_bytes(spec), stored(spec, value));
      parameter += param_bytes(spec);
    }
    for (int byte : block.fine) body[parameter++] = static_cast<uint8_t>(byte);
  }
  return body;
}

std::vector<float> decode_transformed(const Spec& spec, const Bytes& body, size_t count,
                                      float factor) {
  std::vector<float> x;
  const Format& f = format(spec);
  for (size_t i = 0; i < count; ++i) {
    int code = 0;
    for (int j = 0; j < spec.bits; ++j) {
      const size_t k = i * spec.bits + j;
      code |= (body[k / 8] >> k % 8 & 1) << j;
    }
    std::vector<float> params;
    const size_t block = i / spec.block * spec.block;
    size_t at = params_offset(spec, count) + params_of(spec, block);
    for (size_t k = 0; k < f.params; ++k, at += param_bytes(spec))
      params.push_back(parameter(spec, body, at));
    if (f.fine != 0) params.push_back(body[at + (i - block) / f.fine]);
    x.push_back(f.decode(spec, code, params, factor));
  }
  return x;
}

Bytes encode(const Spec& spec, const Stream& stream, const std::vector<float>& x) {
  return encode_transformed(spec, stream, transformed(spec, x));
}

std::vector<float> decode(const Spec& spec, const Bytes& body, size_t count, float factor) {
  return restored(spec, decode_transformed(spec, body, count, factor));
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
  packed[4] = 4;
  packed[5] = static_cast<uint8_t>(spec.codec);
  packed[6] = spec.bits;
  packed[7] = static_cast<uint8_t>(nccl_number(dtype));
  put(packed, 8, 4, spec.block);
  packed[12] = static_cast<uint8_t>(spec.scale);
  packed[13] = spec.hadamard;
  put(packed, 16, 8, count);
  put(packed, 24, 8, check(packed));
  return packed;
}

bool acceptable(const Bytes& packed) {
  if (packed.size() < 32 || !std::equal(packed.begin(), packed.begin() + 4, "TRSE")) return false;
  const uint64_t block = get(packed, 8, 4), count = get(packed, 16, 8);
  const Format* f = format(packed[5]);
  if (packed[4] != 4 || f == nullptr) return false;
  if (packed[6] < f->least_bits || packed[6] > f->most_bits) return false;
  if (packed[7] != 6 && packed[7] != 7 && packed[7] != 9) return false;
  if (block < f->least_block || block > f->most_block || block % 32 != 0) return false;
  const bool scales[] = {!f->e8m0_params, f->bf16_params, f->e8m0_params};
  if (packed[12] > 2 || !scales[packed[12]]) return false;
  if (packed[13] != 0 && (packed[13] != 32 || packed[6] > f->transformed_bits)) return false;
  if (get(packed, 14, 2) != 0) return false;
  if (count / 4 > packed.size()) return false;  // not even two bits for each; avoids overflow
  Spec spec;
  spec.codec = CodecId{packed[5]};
  spec.bits = packed[6];
  spec.block = static_cast<uint16_t>(block);
  spec.scale = static_cast<Number>(packed[12]);
  return packed.size() == 32 + size_of_body(spec, count) && get(packed, 24, 8) == check(packed);
}

}  // namespace oracle
