#include "codec/checksum.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

#include "codec/host_ops.h"

namespace terse::codec {
namespace {

Seen see_piece(const uint8_t* piece, uint64_t bytes, uint64_t first, const ExtremeBits& bits) {
  const uint64_t whole = bytes / 4;
  Seen seen = host_ops().see(piece, whole, first, bits);
  if (bytes % 4 == 0) return seen;
  uint32_t last = 0;
  std::memcpy(&last, piece + 4 * whole, bytes % 4);
  include(seen, {check_of_word(last, first + whole), bits(last)});
  return seen;
}

}  // namespace

void checksum(const Checksum& work) {
  Seen seen{0, 0};
  for (uint32_t i = 0; i < work.count; ++i) {
    const CheckedPieces& of = work.of[i];
    for (uint64_t p = 0; p < of.pieces; ++p)
      include(seen, see_piece(static_cast<const uint8_t*>(of.data) + p * of.bytes, of.bytes,
                              of.first + p * check_words(of.bytes), work.bits));
  }
  std::fill_n(work.parts, work.part_count, uint64_t{0});
  work.parts[0] = seen.sum;
  if (work.extreme == nullptr) return;
  std::fill_n(work.extreme, work.part_count, 0u);
  work.extreme[0] = seen.extreme;
}

bool any_extreme(const Checksum& work) {
  return std::any_of(work.extreme, work.extreme + work.part_count,
                     [](uint32_t part) { return part != 0; });
}

ExtremeBits extreme_bits(Dtype dtype) {
  static constexpr ExtremeBits kByDtype[] = {{0x78000000u, 0x80000000u},   // fp32
                                             {0x70007000u, 0x80008000u},   // fp16
                                             {0x78007800u, 0x80008000u}};  // bf16
  static_assert(std::size(kByDtype) == kDtypes);
  return kByDtype[static_cast<size_t>(dtype)];
}

uint64_t total(const uint64_t* parts, uint32_t count) {
  return std::accumulate(parts, parts + count, uint64_t{0});
}

}  // namespace terse::codec
