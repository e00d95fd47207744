#include "kernels/device/window_check.h"
#include "kernels/window_kernels.h"

namespace terse::kernels {
namespace {

__global__ void __launch_bounds__(kThreads)
    check_window_kernel(const __grid_constant__ WindowCheck check) {
  __shared__ uint32_t vote;
  check_window(check, vote);
}

__global__ void __launch_bounds__(simt::kWarp)
    name_in_steps_kernel(const __grid_constant__ CallInSteps named) {
  name_in_steps(named);
}

}  // namespace

const void* check_window() { return reinterpret_cast<const void*>(&check_window_kernel); }
const void* name_in_steps() { return reinterpret_cast<const void*>(&name_in_steps_kernel); }

}  // namespace terse::kernels
