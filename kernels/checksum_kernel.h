// The kernel that checks memory (codec/checksum.h).
#pragma once

#include "codec/checksum.h"

namespace terse::kernels {

// A __global__ void(codec::Checksum work), on thread_blocks(work) blocks of kThreads
// (device/partial_sums.h).
const void* checksum();

}  // namespace terse::kernels
