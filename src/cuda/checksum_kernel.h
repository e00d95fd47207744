// The kernel that checks memory (codec/checksum.h).
#pragma once

#include "codec/checksum.h"

namespace terse::kernels {

// A __global__ void(codec::Checksum work), on codec::kCheckParts blocks of kThreads.
const void* checksum();

}  // namespace terse::kernels
