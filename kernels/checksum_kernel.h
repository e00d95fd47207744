// The kernel that checks memory (codec/checksum.h).
#pragma once

#include "codec/checksum.h"

namespace terse::kernels {

// A __global__ void(codec::Checksum work), on thread_blocks(work) blocks of kThreads
// (device/partial_sums.h).
const void* checksum();
// Kernel of one block that sums the parts behind checksum(), if the work has a total.
const void* sum_checks();

}  // namespace terse::kernels
