// How the kernels are laid on a GPU, for each architecture.
#pragma once

#include <cstdint>

namespace terse::kernels {

struct Tuning {
  int compute_capability;    // 10 * major + minor: this one and newer ones, up to the next entry
  int thread_blocks_per_sm;  // of the persistent grid, at most
};

// What the compiler is asked for: registers for this many thread blocks on a multiprocessor.
constexpr int kMinBlocksPerSm = 4;

// From the oldest to the newest. As many thread blocks as the kernels' registers leave room for.
constexpr Tuning kTunings[] = {
    {75, kMinBlocksPerSm},
};

constexpr const Tuning& tuning_for(int compute_capability) {
  const Tuning* found = &kTunings[0];
  for (const Tuning& t : kTunings)
    if (t.compute_capability <= compute_capability) found = &t;
  return *found;
}

}  // namespace terse::kernels
