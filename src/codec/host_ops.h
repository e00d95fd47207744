// The block operations of one instruction set, as plain functions in a table. A block's elements
// pass through them one stage at a time, in buffers that stay in the first-level cache:
//   load -> quantize -> pack      and      unpack -> dequantize -> store
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/draw.h"
#include "codec/spec.h"

namespace terse::codec {

struct HostOps {
  const char* isa;

  // n elements of user memory, at any alignment, to fp32 and back.
  void (*load[kDtypes])(const void* in, size_t n, float* out);
  void (*store[kDtypes])(const float* in, size_t n, void* out);

  // Finds the parameters of n elements, writes them to `params`, and one byte of code for each
  // element. `first` is the element's index for the random numbers, a multiple of 32. Indexed by
  // family - 1 and rounding; null where a family lacks a rounding.
  void (*quantize[kFamilies][kRoundings])(const float* in, size_t n, int bits, const Draw& draw,
                                          uint64_t first, uint8_t* codes, float* params);

  // Codes to values, written to `out` or added to it. Indexed by family - 1.
  void (*dequantize[kFamilies])(const uint8_t* codes, size_t n, int bits, const float* params,
                                float* out);
  void (*dequantize_add[kFamilies])(const uint8_t* codes, size_t n, int bits, const float* params,
                                    float* out);

  // Bytes of code to `bits` bits each, and back; the high bits of a byte are ignored by pack and
  // zero after unpack. Indexed by bits.
  void (*pack[kMaxBits + 1])(const uint8_t* codes, size_t n, uint8_t* out);
  void (*unpack[kMaxBits + 1])(const uint8_t* in, size_t n, uint8_t* codes);

  void (*add)(const float* in, size_t n, float* out);  // out += in
  void (*scale)(float factor, size_t n, float* out);   // out *= factor
  // The check (FORMAT.md, section 6) of words that are numbered from `first`.
  uint64_t (*check)(const uint8_t* in, size_t words, size_t first);
};

// The best table that this processor runs.
const HostOps& host_ops();

}  // namespace terse::codec
