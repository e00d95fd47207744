// The kernel that counts a graph's runs: *number += 1, on one thread.
#pragma once

#include <cstdint>

namespace terse::kernels {

// A __global__ void(uint64_t* number).
const void* increment();

}  // namespace terse::kernels
