// The compiled kernels that serve windows (device/window_check.h).
#pragma once

namespace terse::kernels {

// A __global__ void(WindowCheck check), on kThreads threads.
const void* check_window();

// A __global__ void(CallInSteps named), on one warp.
const void* name_in_steps();

}  // namespace terse::kernels
