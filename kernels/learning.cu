#include "kernels/device/fit.h"
#include "kernels/device/learning.h"
#include "kernels/learning_kernels.h"

namespace terse::kernels {
namespace {

__global__ void __launch_bounds__(kThreads) clear_kernel(const codec::Learning work) {
  clear(*work.state);
}

__global__ void __launch_bounds__(kThreads) widest_kernel(const codec::Learning work) {
  find_widest(work);
}

__global__ void __launch_bounds__(kThreads) histogram_kernel(const codec::Learning work) {
  __shared__ HistogramShared shared;
  add_to_histogram(work, shared);
}

__global__ void __launch_bounds__(kThreads) fit_kernel(const codec::Learning work) {
  __shared__ FitShared shared;
  fit(work, shared);
}

}  // namespace

const void* clear_learning() { return reinterpret_cast<const void*>(&clear_kernel); }

const void* learn(codec::Learning::Stage stage) {
  switch (stage) {
    case codec::Learning::Stage::kWidest:
      return reinterpret_cast<const void*>(&widest_kernel);
    case codec::Learning::Stage::kHistogram:
      return reinterpret_cast<const void*>(&histogram_kernel);
    case codec::Learning::Stage::kFit:
      break;
  }
  return reinterpret_cast<const void*>(&fit_kernel);
}

}  // namespace terse::kernels
