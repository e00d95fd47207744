// Parameters of the kernels that serve windows (window_check.h).
#pragma once

#include "kernels/device/exchange.h"

namespace terse::kernels {

// A check of windows.
struct WindowCheck {
  static constexpr uint32_t kMaxAreas = 4, kRounds = 3;
  static constexpr uint32_t kWords = 8;  // that a rank stores at each end of a peer's areas

  Exchange exchange;  // its windows, abort and ranks
  uint64_t key[kMaxWindows];
  uint64_t area[kMaxAreas];  // where each begins in a window
  uint64_t area_bytes;
  uint32_t areas;
  // By rank, in memory that the host reads; not 0: what the rank has stored is not there.
  uint32_t* wrong;
};

// Name of a call that a rank does in steps, for peers that wait in a fused one.
struct CallInSteps {
  char* window[kMaxWindows];
  uint32_t ranks, self;
  uint64_t number;  // on the communicator
  codec::CallHeader call;
};

}  // namespace terse::kernels
