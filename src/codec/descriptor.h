// Descriptor of a codec: it decides which schemes there are, their names, what is refused, and the
// size of bodies.
#pragma once

#include <string_view>

#include "codec/spec.h"

namespace terse::codec {

// A set of values of an enum: bit by number.
using Choices = uint8_t;
template <class... Values>
constexpr Choices choices(Values... values) {
  return static_cast<Choices>((0u | ... | (1u << static_cast<unsigned>(values))));
}
template <class Value>
constexpr bool has(Choices set, Value value) {
  return set >> static_cast<unsigned>(value) & 1;
}

// How integer codes are fitted to a block: to its largest magnitude, or for the least squared
// error.
enum class Fit : uint8_t { kAbsmax = 0, kMse = 1 };

// Sharing of a grid: kNone, or all ranks have the grid of the largest parameters of any of them,
// and one code is made of theirs by a sum of integers, or by merges of two at a time.
enum class Sharing : uint8_t { kNone, kSummed, kMerged };

struct Descriptor {
  CodecId id;
  std::string_view name;   // in schemes; where there are several widths, the bits follow it
  Fit fit = Fit::kAbsmax;  // tells codecs of one name apart
  int min_bits, max_bits;
  size_t min_block = kMinBlock, max_block = kMaxBlock, default_block = 128;
  Choices roundings = choices(Rounding::kNearest, Rounding::kStochastic);
  Rounding default_rounding = Rounding::kNearest;
  size_t params = 1;                        // numbers per block
  Choices scales = choices(Number::kFp32);  // how they may be stored
  Number default_scale = Number::kFp32;
  size_t fine = 0;  // elements that share a finer scale, of a byte; 0: there are none
  // The widest codes that may follow the transform. It has kernels of its own, and is of use where
  // steps are coarse. It mixes elements: of codes without it zeros stay zeros.
  int max_hadamard_bits = 0;
  Sharing sharing = Sharing::kNone;
  bool codebook = false;    // levels are in a table, in the machine's memory (codebook.h)
  std::string_view source;  // who defined it
};

constexpr bool has_one_block(const Descriptor& d) { return d.min_block == d.max_block; }
constexpr bool has_one_width(const Descriptor& d) { return d.min_bits == d.max_bits; }
// Default spec of a codec for codes of so many bits.
constexpr Spec default_spec(const Descriptor& d, int bits, Rounding rounding) {
  return {d.id, rounding, static_cast<uint8_t>(bits), static_cast<uint16_t>(d.default_block),
          d.default_scale};
}

constexpr bool shares_grid(const Descriptor& d) { return d.sharing != Sharing::kNone; }

}  // namespace terse::codec
