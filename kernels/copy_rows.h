// Copies that are rows, as much each and as far apart, are one copy of the CUDA runtime's.
#pragma once

#include <cstddef>
#include <span>

#include "backend/backend.h"

namespace terse::cuda {

struct Rows {
  Copy first;
  size_t count = 1;
  size_t target_pitch, source_pitch;  // bytes from a row to the next
};

// Returns as many of the first copies as are rows, at least one. Two copies alone are not rows: any
// two lie some distance apart, also in different allocations, which a copy must not cross.
inline Rows rows_of(std::span<const Copy> copies) {
  constexpr size_t kMaxPitch = 0x7fffffff;  // cudaDevAttrMaxPitch, of every GPU
  const auto pitch = [](const void* from, const void* to) {
    return static_cast<size_t>(static_cast<const char*>(to) - static_cast<const char*>(from));
  };
  const Copy& first = copies.front();
  Rows rows{first, 1, first.bytes, first.bytes};
  for (size_t i = 1; i < copies.size(); ++i, ++rows.count) {
    const Copy &last = copies[i - 1], &next = copies[i];
    const size_t target = pitch(last.target, next.target), source = pitch(last.source, next.source);
    if (next.bytes != first.bytes || target < first.bytes || source < first.bytes) break;
    if (target > kMaxPitch || source > kMaxPitch) break;
    if (i > 1 && (target != rows.target_pitch || source != rows.source_pitch)) break;
    rows.target_pitch = target;
    rows.source_pitch = source;
  }
  if (rows.count == 2) return {first, 1, first.bytes, first.bytes};
  return rows;
}

}  // namespace terse::cuda
