// What the codec's tests share: numbers to encode, memory with guards around it, and the codec's
// operations on byte vectors, in the terms of the oracle.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "oracle.h"
#include "specs.h"

namespace terse::codec {

using oracle::Bytes;
using oracle::Stream;
using Floats = std::vector<float>;

constexpr Dtype kAllDtypes[] = {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16};

const char* name_of(Dtype dtype);

// The same numbers on every run and with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return oracle::mix(state_ += 0x9E3779B97F4A7C15); }
  size_t below(size_t n) { return next() % n; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // in [0, 1)
  double gaussian();

 private:
  uint64_t state_;
};

// One of every_spec(): each codec is as likely as the others.
Spec some_spec(Random& random, size_t block);

enum class Kin {
  kGaussian,
  kUniform,
  kWide,
  kSparse,
  kConstant,
  kSubnormal,
  kHuge,
  kPlanted,
  kHalf,
  kOneSign
};
constexpr int kKins = 10;
// n numbers of a kind: bell curve; one interval; all exponents; half of them zeros of either sign;
// one value; about and below the smallest normal; up to FLT_MAX; with NaN and infinity here and
// there; bit patterns of fp16 and bf16; and half a bell curve, here and there a zero of either
// sign.
Floats numbers(Kin kin, size_t n, Random& random);
Floats gaussian(size_t n, uint64_t seed, double deviation = 1);

// fp32 NaNs that may be read and are never written; and fp32 element i of memory, as its bits.
constexpr uint32_t kOtherNans[] = {0xFFC00000, 0xFFC12345, 0x7FC00001, 0xFF812345};
void put_bits(Bytes& memory, size_t i, uint32_t bits);

// n bytes, `offset` past an address that is a multiple of 64, between guards.
class Guarded {
 public:
  explicit Guarded(size_t n, size_t offset = 0);
  explicit Guarded(const Bytes& content, size_t offset = 0);
  uint8_t* data() { return bytes_.data() + begin_; }
  size_t size() const { return n_; }
  Bytes content() const { return {bytes_.begin() + begin_, bytes_.begin() + begin_ + n_}; }
  bool intact() const;  // nothing was written outside

 private:
  size_t n_, begin_;
  Bytes bytes_;
};

Draw draw_of(const Stream& stream);

// The implementation; each checks the guards about its output. `offset` misaligns all memory.
Bytes encode(const Spec& spec, const Stream& stream, Dtype dtype, const Bytes& memory,
             size_t offset = 0, const float* codebook = nullptr);
Bytes decode(const Spec& spec, const Bytes& body, size_t count, Dtype dtype, size_t offset = 0,
             const float* codebook = nullptr);
// There and back, in fp32.
Floats round_trip(const Spec& spec, const Stream& stream, const Floats& x);
// ||got - x|| / ||x||.
double relative_error(const Floats& x, const Floats& got);

// One source of a combination, as bytes; empty `raw` means a packed body.
struct Input {
  Bytes bytes;
  std::optional<Dtype> raw;
  bool negated = false;

  Format format(const Spec& spec) const { return raw ? Format(*raw) : Format(spec); }
  Source source(const void* data, const Spec& spec) const { return {data, format(spec), negated}; }
};
// factor * inputs[0] + factor * inputs[1] + ..., where raw inputs are premultiplied, the oracle's
// way: as elements, and as a body.
Floats sum(const Spec& spec, size_t count, const std::vector<Input>& inputs, float factor,
           float premultiply = 1.0f);
Bytes encoded_sum(const Spec& spec, const Stream& stream, size_t count,
                  const std::vector<Input>& inputs, float factor, float premultiply = 1.0f);
// What is packed in one way comes to be packed in another.
Bytes encoded_sum(const Spec& from, const Spec& to, const Stream& stream, size_t count,
                  const std::vector<Input>& inputs, float factor);

}  // namespace terse::codec
