// The check of memory, by which ranks compare what they hold without sending it: the sum modulo
// 2^64 over its 32-bit words w_i of (w_i xor 0x9E3779B9) * (2i + 1), as that of a packed buffer
// (FORMAT.md, section 6).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/portable.h"

namespace terse::codec {

TERSE_INLINE constexpr uint64_t check_words(uint64_t bytes) { return bytes / 4 + (bytes % 4 != 0); }

TERSE_INLINE uint64_t check_of_word(uint32_t word, uint64_t i) {
  return static_cast<uint64_t>(word ^ 0x9E3779B9u) * (2 * i + 1);
}

// Pieces of `bytes` bytes each, an even number, one behind another. Each begins with a word of its
// own, and its last word is filled up with zeros; the first word has number `first`.
struct CheckedPieces {
  const void* data;
  uint64_t bytes, pieces, first;
};

// The check of several of them is the sum of their checks, and that of the parts.
constexpr uint32_t kCheckParts = 128, kMostChecked = 3;
struct Checksum {
  CheckedPieces of[kMostChecked];
  uint32_t count;             // of those
  uint64_t* parts;            // kCheckParts, all of which are written
  uint64_t* total = nullptr;  // where their sum comes to, too; null: nowhere
};

// On the host.
void checksum(const Checksum& work);
uint64_t total(const uint64_t* parts);

}  // namespace terse::codec
