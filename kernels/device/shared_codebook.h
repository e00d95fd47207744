// The table of a learned codec's levels (src/codec/codebook.h), in shared memory: up to 32 of its
// numbers lie in a bank each.
#pragma once

#include "codec/block.h"
#include "codec/codebook.h"
#include "kernels/arch/arch.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

// Size of the codebook in shared memory: a decoder needs only the levels, and an encoder that draws
// codes does not need the middles. The table begins with the levels.
template <class F, bool packed_target>
struct SharedCodebook {
  static constexpr uint32_t kLevels = 1u << F::kBits;
  static constexpr uint32_t kParts = !packed_target                              ? 1
                                     : F::kRounding == codec::Rounding::kNearest ? 2
                                                                                 : 3;
  static constexpr uint32_t kEntries = kParts * kLevels;
  float entry[kEntries];

  // Loads the codebook: called by all threads of a thread block, before any of them uses it.
  TERSE_DEVICE const float* load(const float* codebook) {
    for (uint32_t i = simt::thread_index(); i < kEntries; i += simt::block_size())
      simt::shared_store(entry[i], codebook != nullptr ? simt::load(codebook + i)
                                                       : codec::uniform_entry(i, F::kBits));
    simt::sync_block();
    return entry;
  }
};

// Other codecs have none.
template <class F, bool packed_target>
requires(!codec::HasCodebook<typename F::Codec>) struct SharedCodebook<F, packed_target> {
  TERSE_DEVICE const float* load(const float*) { return nullptr; }
};

// Numbers in shared memory.
struct InShared {
  const float* first;

  TERSE_DEVICE float operator[](uint32_t i) const { return simt::shared_load(first[i]); }
};

// An element's code, by the table.
template <class F>
struct LevelCoder {
  typename F::Codec::Quantizer quantizer;
  InShared table;

  TERSE_DEVICE uint32_t operator()(float x, uint16_t random) const {
    constexpr uint32_t kLevels = 1u << F::kBits;
    const float position = quantizer.scaled(x);
    if constexpr (F::kRounding == codec::Rounding::kNearest)
      return codec::count_not_above(position, InShared{table.first + kLevels}, kLevels);
    const uint32_t code = codec::count_not_above(position, table, kLevels);
    return code + F::Codec::rises(position, table[code], table[2 * kLevels + code], random);
  }
};

}  // namespace terse::kernels
