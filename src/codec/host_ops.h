// The block operations of one instruction set, as plain functions in a table. A tile of some whole
// blocks passes through them one stage at a time, in buffers that stay in the first-level cache:
//   quantize -> pack      and      unpack -> dequantize
// from and to user memory of each dtype, or, where there are several sources, fp32 sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/checksum.h"
#include "codec/codec.h"
#include "codec/codecs.h"
#include "codec/draw.h"

namespace terse::codec {

// The elements of a tile, about: of larger ones, which are of one block, the operations themselves
// fetch what comes next.
constexpr size_t kTile = 1024;

// Operations of one codec. `in` and `out` are user memory; n elements from a block's first one on,
// of which the last block may be shorter. A code takes a byte, or two if it has more bits than
// that.
struct CodecOps {
  // Finds the parameters of the elements, block by block, writes them to `params` as they are in a
  // body, and the code of each element; or a part of that: codes of the parameters that are there.
  // `first` is the first element's index for the random numbers, a multiple of 32. Indexed by part,
  // dtype and rounding; null where the codec lacks a rounding, or parts. Here and below `codebook`
  // is that of a codec which has one.
  void (*quantize[kEncodedParts][kDtypes][kRoundings])(const void* in, size_t n, const Spec& spec,
                                                       const Draw& draw, uint64_t first,
                                                       uint8_t* codes, uint8_t* params,
                                                       const float* codebook);

  // Codes to values, their parameters times `factor`: to user memory, or added to fp32 sums.
  void (*dequantize[kDtypes])(const uint8_t* codes, size_t n, const Spec& spec,
                              const uint8_t* params, float factor, void* out,
                              const float* codebook);
  void (*dequantize_add)(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                         float factor, void* sums, const float* codebook);

  // Merges two codes of a byte to one, which may take the place of either. `first` is as above.
  // Indexed by rounding; null if the codec does not merge.
  void (*merge[kRoundings])(const uint8_t* a, const uint8_t* b, size_t n, const Draw& draw,
                            uint64_t first, uint8_t* out);
};

struct HostOps {
  const char* isa;

  // User memory is read and written at any alignment.

  // n elements of user memory to fp32, written to `out` or added to it, and back.
  void (*load[kDtypes])(const void* in, size_t n, float* out);
  void (*load_add[kDtypes])(const void* in, size_t n, float* out);
  void (*store[kDtypes])(const float* in, size_t n, void* out);

  CodecOps codecs[Codecs::kSize];  // in the order of the list

  // Bytes of code to `bits` bits each, and back; the high bits of a byte are ignored by pack and
  // zero after unpack. Indexed by bits.
  void (*pack[kMaxBits + 1])(const uint8_t* codes, size_t n, uint8_t* out);
  void (*unpack[kMaxBits + 1])(const uint8_t* in, size_t n, uint8_t* codes);

  void (*scale)(float factor, size_t n, float* out);  // out *= factor

  // The Walsh-Hadamard transform of each whole 32 of n fp32 elements, and the factor of the others;
  // and back, when all NaNs become the canonical one. May be in place.
  void (*hadamard[2])(size_t n, const void* in, void* out);

  // Checks of words that are numbered from `first`: the check of memory (checksum.h), with a mark
  // of elements that are not finite; and that of a packed buffer (container.h).
  Seen (*see)(const uint8_t* in, size_t words, size_t first, ExtremeBits bits);
  uint64_t (*check_packed)(const uint8_t* in, size_t words, size_t first);
};

// Returns true if this processor has all the instructions that a table may use.
bool processor_runs(const HostOps& ops);

// The best table that this processor runs.
const HostOps& host_ops();

}  // namespace terse::codec
