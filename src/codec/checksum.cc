#include "codec/checksum.h"

#include <algorithm>
#include <cstring>
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

}  // namespace

void checksum(const Checksum& work) {
  std::fill_n(work.parts, kCheckParts, uint64_t{0});
  for (uint32_t i = 0; i < work.count; ++i) work.parts[0] += check_of(work.of[i]);
  if (work.total != nullptr) *work.total = work.parts[0];
}

uint64_t total(const uint64_t* parts) {
  return std::accumulate(parts, parts + kCheckParts, uint64_t{0});
}

}  // namespace terse::codec
