// Layout of bodies, and which specs are valid (FORMAT.md, sections 2 and 3). Sizes and offsets come
// from here alone.
#pragma once

#include "codec/codecs.h"

namespace terse::codec {

// Levels on a side of zero, if those of all ranks may be added up in a code.
constexpr int levels(int bits, int ranks) { return ((1 << (bits - 1)) - 1) / ranks; }

// Min levels of a block; with fewer most elements would be rounded to zero, or away from it.
constexpr int kMinLevels = 15;

// Returns what is wrong with a spec; null: nothing.
constexpr const char* fault(const Spec& s) {
  if (!known(s.codec)) return "unknown codec";
  const Descriptor& d = descriptor(s.codec);
  if (s.bits < d.min_bits || s.bits > d.max_bits) return "it does not have so many bits";
  if (s.block < d.min_block || s.block > d.max_block || s.block % kBlockQuantum != 0)
    return "it does not have such blocks";
  if (!has(d.roundings, s.rounding)) return "it does not round like that";
  if (!has(d.scales, s.scale)) return "its parameters are not stored like that";
  if (s.ranks != 1 && !shares_grid(d)) return "its codes cannot be summed";
  if (s.ranks == 0 || (d.sharing == Sharing::kSummed && levels(s.bits, s.ranks) == 0))
    return "it has no levels for so many ranks";
  if (s.hadamard != 0 && (s.hadamard != kHadamard || s.bits > d.max_hadamard_bits))
    return "it does not follow such a transform";
  return nullptr;
}

constexpr bool valid(const Spec& s) { return fault(s) == nullptr; }

// Bytes of finer scales of n elements, from a block's first one on.
constexpr size_t fine_bytes(const Descriptor& d, size_t n) {
  return d.fine == 0 ? 0 : (n + d.fine - 1) / d.fine;
}

// Bytes of the parameters of a whole block.
constexpr size_t params_bytes(const Spec& s) {
  const Descriptor& d = descriptor(s.codec);
  return d.params * number_bytes(s.scale) + fine_bytes(d, s.block);
}

// A body of `count` elements: the codes as one little-endian bit string, zero bits up to a multiple
// of four bytes, then the parameters of each block, and zero bytes up to a multiple of four. Blocks
// are of a multiple of what shares a finer scale, of which a short block has fewer.
struct BodyLayout {
  size_t blocks;
  size_t code_bytes;
  size_t params_offset;
  size_t params_end;
  size_t size;
};

constexpr size_t to_words(size_t bytes) { return (bytes + 3) / 4 * 4; }

// `params_at`: where the parameters are, a multiple of four; 0: there.
constexpr BodyLayout body_layout(const Spec& s, size_t count, size_t params_at = 0) {
  const size_t blocks = count / s.block + (count % s.block != 0);
  // count * bits / 8, rounded up, without overflow for any count that fits in memory
  const size_t code_bytes = count / 8 * s.bits + (count % 8 * s.bits + 7) / 8;
  const size_t params_offset = params_at != 0 ? params_at : to_words(code_bytes);
  const size_t missing = blocks * s.block - count;
  const Descriptor& d = descriptor(s.codec);
  const size_t params_end =
      params_offset + blocks * params_bytes(s) - (d.fine == 0 ? 0 : missing / d.fine);
  return {blocks, code_bytes, params_offset, params_end, to_words(params_end)};
}

constexpr size_t body_size(const Spec& s, size_t count) { return body_layout(s, count).size; }

}  // namespace terse::codec
