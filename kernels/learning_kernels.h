// The kernels that learn levels (codec/learning.h).
#pragma once

#include "codec/learning.h"

namespace terse::kernels {

// __global__ void(codec::Learning work), on thread blocks of kThreads. The first one comes before
// that of the stage kWidest, and is for one thread block, as that of the stage kFit is; the others
// are for any number of them.
const void* clear_learning();
const void* learn(codec::Learning::Stage stage);

}  // namespace terse::kernels
