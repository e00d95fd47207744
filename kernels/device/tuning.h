// How the kernels are laid on a GPU, by its architecture and the codec's number of bits.
#pragma once

#include <span>

#include "codec/block.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

// Min thread blocks per multiprocessor, for __launch_bounds__. Its 64 K registers (from compute
// capability 7.5 to 12.1) then leave a thread so many.
constexpr int kMinBlocksPerSm = 4;
constexpr int kMaxRegisters = 64 * 1024 / (kThreads * kMinBlocksPerSm);
static_assert(kMaxRegisters == 128);

// The transform takes registers, quantizers that are each thread's own, and a second look at the
// elements; so do codes of 6 bits, three bytes to four of them, that become elements of 16 bits (on
// 10.0, by CUDA 13.0's ptxas): one thread block less.
template <class Format, bool packed_target>
constexpr bool kTakesRegisters = Format::kTransforms ||
                                 codec::HasFinerScales<typename Format::Codec> ||
                                 (packed_target
                                      ? codec::Chooses<typename Format::Codec>
                                      : Format::kBits == 6 && sizeof(typename Format::Raw) == 2);

template <class Format, bool packed_target>
constexpr int kMinBlocksOf = kMinBlocksPerSm - (kTakesRegisters<Format, packed_target> ? 1 : 0);

struct Tuning {
  int compute_capability;    // 10 * major + minor: this one and newer ones
  int bits;                  // 0: any number
  int thread_blocks_per_sm;  // of the grid, at most
};

// A thread block's share of the work is fixed when it starts. With only as many as fit at once,
// those that find no room, where kernels of NCCL or of the program hold a part of the machine,
// would do a whole share after all others are done. So there are four times as many: what comes
// last is short, and thread blocks that end soon leave room for NCCL's. (Reasoned, not yet measured
// on a GPU.)
constexpr Tuning kTunings[] = {
    {75, 0, 4 * kMinBlocksPerSm},
};

// The last row that fits; the first one if none does.
constexpr const Tuning& tuning_of(std::span<const Tuning> table, int compute_capability, int bits) {
  const Tuning* found = &table.front();
  for (const Tuning& row : table)
    if (row.compute_capability <= compute_capability && (row.bits == 0 || row.bits == bits))
      found = &row;
  return *found;
}

constexpr const Tuning& tuning_for(int compute_capability, int bits) {
  return tuning_of(kTunings, compute_capability, bits);
}

}  // namespace terse::kernels
