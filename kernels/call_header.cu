#include "kernels/call_header_kernel.h"
#include "kernels/device/call_header.h"

namespace terse::kernels {
namespace {

__global__ void __launch_bounds__(simt::kWarp)
    call_header_kernel(const __grid_constant__ codec::HeaderWork work) {
  compare_calls(work);
}

}  // namespace

const void* call_header() { return reinterpret_cast<const void*>(&call_header_kernel); }

}  // namespace terse::kernels
