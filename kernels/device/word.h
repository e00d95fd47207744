// Words of global memory that may lie anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arch/arch.h"

namespace terse::kernels {

template <class Word>
TERSE_DEVICE bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % sizeof(Word) == 0;
}

// `aligned`: whether the address is; else it is byte by byte.
template <class Word>
TERSE_DEVICE Word load_word(const uint8_t* from, bool aligned) {
  if (aligned) return simt::load(reinterpret_cast<const Word*>(from));
  Word word = 0;
  TERSE_NO_UNROLL
  for (uint32_t k = 0; k < sizeof(Word); ++k)
    word = static_cast<Word>(word | static_cast<Word>(simt::load(from + k)) << 8 * k);
  return word;
}

template <class Word>
TERSE_DEVICE void store_word(uint8_t* to, Word word, bool aligned) {
  if (aligned) return simt::store(reinterpret_cast<Word*>(to), word);
  TERSE_NO_UNROLL
  for (uint32_t k = 0; k < sizeof(Word); ++k)
    simt::store(to + k, static_cast<uint8_t>(word >> 8 * k));
}

}  // namespace terse::kernels
