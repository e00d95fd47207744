// The wire format a second time, written from src/codec/FORMAT.md alone: bit by bit, without a
// thought for speed, sharing with the implementation no more than the names of its enumerations.
// The tests hold the implementation to these bytes; where the two differ, FORMAT.md decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/spec.h"

namespace oracle {

using terse::codec::CodecId;
using terse::codec::Dtype;
using terse::codec::Number;
using terse::codec::Rounding;
using terse::codec::Spec;
using Bytes = std::vector<uint8_t>;

// Section 1: elements and fp32.
float widen(Dtype dtype, uint32_t bits);
uint32_t narrow(Dtype dtype, float value);

// fp32 arithmetic, each result rounded to nearest even. Carried out in double, whose 53 bits are
// enough (2 * 24 + 2) for the second rounding to be that of the exact result; and with a conversion
// after each operation there is nothing that a compiler could fuse.
float add(float a, float b);
float sub(float a, float b);
float mul(float a, float b);
float div(float a, float b);

// Section 5: random numbers.
struct Words4 {
  uint32_t w[4];
};
Words4 philox4x32_7(Words4 counter, uint64_t key);
uint64_t mix(uint64_t x);

struct Stream {
  uint64_t seed = 0, communicator = 0, sequence = 0;
  uint32_t rank = 0, shard = 0, stage = 0;
  uint64_t origin = 0;   // of the body's first element in its shard
  uint32_t variate = 0;  // of the number u: u itself, 1 - u, -2u or u + 1/2, modulo 1
};
uint32_t random16(const Stream& stream, uint64_t element);

// Sections 2 to 4: bodies. `factor`: of a mean.
size_t size_of_body(const Spec& spec, size_t count);
Bytes encode(const Spec& spec, const Stream& stream, const std::vector<float>& x);
std::vector<float> decode(const Spec& spec, const Bytes& body, size_t count, float factor = 1);

// "Learned": as long as there is one of these, ranks hold the levels that it is told of.
class WithLevels {
 public:
  explicit WithLevels(std::vector<float> levels);
  ~WithLevels();
  WithLevels(const WithLevels&) = delete;
  WithLevels& operator=(const WithLevels&) = delete;

 private:
  const std::vector<float> levels_;
  const std::vector<float>* const before_;
};

// "Transform": what a body of transformed elements holds of x, and back. Nothing changes where the
// spec has no transform.
std::vector<float> transformed(const Spec& spec, std::vector<float> x);
std::vector<float> restored(const Spec& spec, std::vector<float> y);
// As above, less the transform.
Bytes encode_transformed(const Spec& spec, const Stream& stream, const std::vector<float>& y);
std::vector<float> decode_transformed(const Spec& spec, const Bytes& body, size_t count,
                                      float factor = 1);

// Section 6: packed buffers.
Bytes seal(const Spec& spec, Dtype dtype, size_t count, const Bytes& body);
uint64_t check(const Bytes& packed);
bool acceptable(const Bytes& packed);

// Elements as their bytes in user memory, and back.
Bytes to_memory(Dtype dtype, const std::vector<float>& x);
std::vector<float> from_memory(Dtype dtype, const Bytes& memory);

}  // namespace oracle
