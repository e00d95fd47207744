// The block operations of one instruction set, as plain functions in a table. A tile of some whole
// blocks passes through them one stage at a time, in buffers that stay in the first-level cache:
//   quantize -> pack      and      unpack -> dequantize
// from and to user memory of each dtype, or, where there are several sources, fp32 sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/draw.h"
#include "codec/spec.h"

namespace terse::codec {

struct HostOps {
  const char* isa;

  // User memory is read and written at any alignment.

  // n elements of user memory to fp32, written to `out` or added to it, and back.
  void (*load[kDtypes])(const void* in, size_t n, float* out);
  void (*load_add[kDtypes])(const void* in, size_t n, float* out);
  void (*store[kDtypes])(const float* in, size_t n, void* out);

  // Finds the parameters of n elements of user memory, block by block, of which the last may be
  // shorter; writes them to `params` as they are in a body, and one byte of code for each element.
  // `first` is the first element's index for the random numbers, a multiple of 32. Indexed by
  // dtype, family - 1 and rounding; null where a family lacks a rounding.
  void (*quantize[kDtypes][kFamilies][kRoundings])(const void* in, size_t n, size_t block, int bits,
                                                   const Draw& draw, uint64_t first, uint8_t* codes,
                                                   uint8_t* params);

  // Codes to values, their parameters times `factor`: to user memory, indexed by dtype and
  // family - 1, or added to fp32 sums, indexed by family - 1.
  void (*dequantize[kDtypes][kFamilies])(const uint8_t* codes, size_t n, size_t block, int bits,
                                         const uint8_t* params, float factor, void* out);
  void (*dequantize_add[kFamilies])(const uint8_t* codes, size_t n, size_t block, int bits,
                                    const uint8_t* params, float factor, void* sums);

  // Bytes of code to `bits` bits each, and back; the high bits of a byte are ignored by pack and
  // zero after unpack. Indexed by bits.
  void (*pack[kMaxBits + 1])(const uint8_t* codes, size_t n, uint8_t* out);
  void (*unpack[kMaxBits + 1])(const uint8_t* in, size_t n, uint8_t* codes);

  void (*scale)(float factor, size_t n, float* out);  // out *= factor

  // The check (FORMAT.md, section 6) of words that are numbered from `first`.
  uint64_t (*check)(const uint8_t* in, size_t words, size_t first);
};

// The best table that this processor runs.
const HostOps& host_ops();

}  // namespace terse::codec
