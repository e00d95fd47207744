#include "codec/checksum.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

#include "codec/host_ops.h"

namespace terse::codec {
namespace {

uint64_t check_of_piece(const uint8_t* piece, uint64_t bytes, uint64_t first) {
  const uint64_t whole = bytes / 4;
  const uint64_t sum = host_ops().check(piece, whole, first);
  if (bytes % 4 == 0) return sum;
  uint32_t last = 0;
  std::memcpy(&last, piece + 4 * whole, bytes % 4);
  return sum + check_of_word(last, first + whole);
}

uint64_t check_of(const CheckedPieces& of) {
  uint64_t sum = 0;
  for (uint64_t p = 0; p < of.pieces; ++p)
    sum += check_of_piece(static_cast<const uint8_t*>(of.data) + p * of.bytes, of.bytes,
                          of.first + p * check_words(of.bytes));
  return sum;
}

bool has_nonfinite(const CheckedPieces& of, const NonfiniteBits& bits) {
  uint32_t found = 0;
  for (uint64_t p = 0; p < of.pieces; ++p) {
    const uint8_t* const piece = static_cast<const uint8_t*>(of.data) + p * of.bytes;
    found |= host_ops().nonfinite(piece, of.bytes / 4, bits);
    uint32_t last = 0;
    std::memcpy(&last, piece + of.bytes / 4 * 4, of.bytes % 4);
    found |= bits(last);
  }
  return found != 0;
}

}  // namespace

void checksum(const Checksum& work) {
  std::fill_n(work.parts, kCheckParts, uint64_t{0});
  for (uint32_t i = 0; i < work.count; ++i) work.parts[0] += check_of(work.of[i]);
  if (work.total != nullptr) *work.total = work.parts[0];
  if (work.nonfinite == nullptr) return;
  std::fill_n(work.nonfinite, kCheckParts, 0u);
  for (uint32_t i = 0; i < work.count; ++i)
    work.nonfinite[0] |= has_nonfinite(work.of[i], work.bits) ? 1 : 0;
}

bool any_nonfinite(const Checksum& work) {
  return std::any_of(work.nonfinite, work.nonfinite + kCheckParts,
                     [](uint32_t part) { return part != 0; });
}

NonfiniteBits nonfinite_bits(Dtype dtype) {
  static constexpr NonfiniteBits kByDtype[] = {{0x7f800000u, 0x80000000u},   // fp32
                                               {0x7c007c00u, 0x80008000u},   // fp16
                                               {0x7f807f80u, 0x80008000u}};  // bf16
  static_assert(std::size(kByDtype) == kDtypes);
  return kByDtype[static_cast<size_t>(dtype)];
}

uint64_t total(const uint64_t* parts) {
  return std::accumulate(parts, parts + kCheckParts, uint64_t{0});
}

}  // namespace terse::codec
