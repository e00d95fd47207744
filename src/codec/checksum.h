// The check of memory, by which ranks compare what they hold without sending it (FORMAT.md,
// section 5).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

TERSE_INLINE constexpr uint64_t check_words(uint64_t bytes) { return bytes / 4 + (bytes % 4 != 0); }

// Factors are odd, so that no change of one word is missed; and irregular, so that none is missed
// which is the same for all words, as where constants are filled in: were they 2i + 1, their sum
// over n words would be n^2, and a change by a power of two would vanish where n is one.
constexpr uint32_t kScatter = 0x9E3779B9u;

// Factor of word i's check, given i * kScatter; or of a vector of such words.
template <class Word>
TERSE_INLINE Word factor_of_scattered(Word scattered) {
  return (scattered ^ scattered >> 16) | 1u;
}

TERSE_INLINE uint64_t check_of_word(uint32_t word, uint64_t i) {
  return static_cast<uint64_t>(word ^ kScatter) *
         factor_of_scattered(static_cast<uint32_t>(i) * kScatter);
}

// How to see extreme elements in a word of them, one or two: those that are not finite, or so large
// that differences of such, and sums with these, might not be. The first bits of their exponents
// are ones, which with one more at the lowest of them carry into the sign's place.
struct ExtremeBits {
  uint32_t exponents = 0, carries = 0;  // zeros: none are seen

  // Returns the sign bits of extreme elements of a word, or of a vector of words.
  template <class Word>
  TERSE_INLINE Word operator()(Word word) const {
    return ~(((word & exponents) ^ exponents) + exponents) & carries;
  }
};

// Summary of some words: their part of the sum, and a number that is not 0 if an element in them is
// extreme.
struct Seen {
  uint64_t sum;
  uint32_t extreme;
};

TERSE_INLINE void include(Seen& seen, const Seen& more) {
  seen.sum += more.sum;
  seen.extreme |= more.extreme;
}

// Pieces of `bytes` bytes each, an even number, one behind another. Each begins with a word of its
// own, and its last word is filled up with zeros; the first word has number `first`.
struct CheckedPieces {
  const void* data;
  uint64_t bytes, pieces, first;
};

// The check of several of them is the sum of their checks, and that of the parts. Where the pieces
// are of elements of some type, it is also said whether any of these is extreme.
constexpr uint32_t kCheckParts = 512, kMaxChecked = 16;
// Parts of a check by which draws change, of samples and of all that is sent: kernels read each.
constexpr uint32_t kSampleParts = 32, kContentParts = 256;
struct Checksum {
  CheckedPieces of[kMaxChecked];
  uint32_t count;                     // of those
  uint64_t* parts;                    // all of which are written
  uint32_t part_count = kCheckParts;  // at most so many
  bool are_samples = false;           // pieces are small, and of the same size but for the last one
  ExtremeBits bits = {};              // of an element's type
  // A word a part, of which one is not 0 where an element is extreme; null: it is not asked for.
  uint32_t* extreme = nullptr;
};

// Computes the check on the host.
void checksum(const Checksum& work);
uint64_t total(const uint64_t* parts, uint32_t count = kCheckParts);
bool any_extreme(const Checksum& work);
// Bits of magnitudes from 2^113 on, in fp16 from 8192 on.
ExtremeBits extreme_bits(Dtype dtype);

}  // namespace terse::codec
