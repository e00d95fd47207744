// How the levels of a learned codec come from elements. Three stages, between which the ranks make
// their parts of the state one:
//
//   widest     the largest range of a block; the largest of all ranks
//   histogram  where elements lie between the smallest and the largest of their block, each as
//              heavy as its block's squared range beside the widest one's; the sum of all ranks
//   fit        the levels (fit.h)
//
// Blocks whose elements are all the same, or not all finite, have no part in it, nor have those of
// symmetric codes. All is integers, or rounded after each operation: the order of elements does not
// matter, and hosts and kernels give the same bytes.
#pragma once

#include "codec/codecs/learned.h"
#include "codec/fit.h"

namespace terse::codec {

struct LearningState {
  uint32_t widest;  // as fp32
  alignas(16) uint64_t bins[kBins];
};

struct Learning {
  enum class Stage : uint8_t { kWidest, kHistogram, kFit };

  Stage stage;
  Dtype dtype;        // of elements
  uint8_t bits;       // of codes
  Rounding rounding;  // of elements to levels
  uint32_t block;     // elements
  uint64_t count;     // elements
  const void* data;   // at any address
  LearningState* state;
  float* table;  // codebook.h; the fit writes it, unless no element has a part in it
};

// Range of a block that takes part, as fp32 bits; 0 for any other.
TERSE_INLINE uint32_t range_bits(const Learned::Stats& stats) {
  const uint32_t bits = float_bits(add(stats.high, -stats.low));
  return bits >= kTinyBits && bits < kInfinityBits && !Learned::symmetric(stats) ? bits : 0;
}

// Weight of one element of a block, from 1 to 2^20, so that one wide block does not hide the
// others.
TERSE_INLINE uint32_t element_weight(uint32_t range, uint32_t widest) {
  if (range == 0 || widest == 0) return 0;
  const float part = div(bits_float(range), bits_float(widest));
  const uint32_t weight = static_cast<uint32_t>(add(mul(mul(part, part), 0x1p20f), 0.5f));
  return weight != 0 ? weight : 1;
}

// How an element's bin follows from its block's extent.
struct Bins {
  float low, scale;  // of a quarter of the bins, so that it is within fp32

  TERSE_INLINE explicit Bins(const Extent& extent)
      : low(extent.low), scale(div(kBins / 4.0f, add(extent.high, -extent.low))) {}

  TERSE_INLINE uint32_t of(float x) const {
    const uint32_t bin = static_cast<uint32_t>(mul(4.0f, mul(add(x, -low), scale)));
    return bin < kBins ? bin : kBins - 1;
  }
};

// A stage on the host.
void learn(const Learning& work);

}  // namespace terse::codec
