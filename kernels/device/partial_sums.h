// Number of thread blocks that make a sum in parts, one part each: at most one for each vector of
// 8.
#pragma once

#include <algorithm>

#include "codec/checksum.h"
#include "codec/difference.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

// Bytes that a thread checks at a time; it loads kRows of them before it uses any. With all thread
// blocks that there are parts for, four megabytes are in flight, which is what the fastest memory
// takes. (Reasoned, not yet measured on a GPU.)
constexpr uint64_t kCheckedBytes = 16;

inline uint32_t thread_blocks_for(uint64_t bytes, uint64_t vec8_bytes, uint32_t parts) {
  const uint64_t each = kThreads * vec8_bytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / each + (bytes % each != 0), 1, parts));
}

inline uint32_t thread_blocks(const codec::Checksum& work) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < work.count; ++i)
    if (work.of[i].pieces != 0) most = std::max(most, work.of[i].bytes);
  const uint32_t of_one = thread_blocks_for(most, kCheckedBytes, work.part_count);
  return work.are_samples ? std::min(of_one * work.count, work.part_count) : of_one;
}

inline uint32_t thread_blocks(const codec::Comparison& work) {
  return thread_blocks_for(work.count, kVec8, codec::kDifferenceParts);
}

}  // namespace terse::kernels
