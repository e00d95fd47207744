// The kernel that compares two buffers (codec/difference.h).
#pragma once

#include "codec/difference.h"

namespace terse::kernels {

// A __global__ void(codec::Comparison work), on thread_blocks(work) blocks of kThreads
// (device/partial_sums.h).
const void* compare();

}  // namespace terse::kernels
