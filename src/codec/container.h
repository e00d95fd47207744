// The self-describing packed buffer (FORMAT.md, section 6).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/layout.h"
#include "codec/portable.h"

namespace terse::codec {

constexpr size_t kHeaderBytes = 32;

struct Header {
  Spec spec;    // the rounding is not recorded
  Dtype dtype;  // of the encoded elements
  size_t count;
};

constexpr size_t container_size(const Spec& spec, size_t count) {
  return kHeaderBytes + body_size(spec, count);
}

// Check of word i of a packed buffer; the buffer's check is their sum.
TERSE_INLINE uint64_t check_of_packed_word(uint32_t word, uint64_t i) {
  return static_cast<uint64_t>(word ^ 0x9E3779B9u) * (2 * i + 1);
}

// Writes the header before a finished body.
void seal(const Header& header, void* packed);

// Returns why `bytes` bytes are no packed buffer; null: they are one, which *header describes.
const char* open(const void* packed, size_t bytes, Header* header);

}  // namespace terse::codec
