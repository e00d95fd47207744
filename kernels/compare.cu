#include "kernels/compare_kernel.h"
#include "kernels/device/difference.h"

namespace terse::kernels {
namespace {

__global__ void __launch_bounds__(kThreads) compare_kernel(const codec::Comparison work) {
  __shared__ DifferenceSum::Shared shared;
  difference(work, shared);
}

}  // namespace

const void* compare() { return reinterpret_cast<const void*>(&compare_kernel); }

}  // namespace terse::kernels
