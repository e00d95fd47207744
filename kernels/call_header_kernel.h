// The kernel that compares calls by their headers (codec/call_header.h).
#pragma once

#include "codec/call_header.h"

namespace terse::kernels {

// A __global__ void(codec::HeaderWork work), on one warp.
const void* call_header();

}  // namespace terse::kernels
