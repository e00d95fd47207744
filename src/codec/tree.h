// The order in which codes of all ranks are merged (FORMAT.md, section 4, "Merging"): as in a
// balanced binary tree over them, each level of which makes one of two neighbours; the last one of
// an odd number stays as it is. One after the other they go on a stack, of few, where those on its
// top are merged:
//
//   for (uint32_t i = 0; i < n; ++i) {
//     push(i);
//     for (uint32_t begin = i; is_merged(begin, i, n); begin = begin_before(begin)) merge(begin);
//   }
#pragma once

#include "codec/portable.h"

namespace terse::codec {

// Depth of the tree, which is on the stack, for fewer than 2^16 codes.
constexpr uint32_t kTreeDepth = 17;

// Codes begin .. i of n are on top. Whether what is below them, if anything, is of as many, or none
// will follow. `begin` is the number of the merge: no other one begins its second half there.
TERSE_INLINE bool is_merged(uint32_t begin, uint32_t i, uint32_t n) {
  const uint32_t below = begin & (~begin + 1);
  return begin != 0 && (i + 1 == n || below == i + 1 - begin);
}

// Begin of the merged codes.
TERSE_INLINE uint32_t begin_before(uint32_t begin) { return begin & (begin - 1); }

}  // namespace terse::codec
