#include "cuda/launch.h"

#include <algorithm>
#include <stdexcept>

#include "backend/cuda/device.h"
#include "cuda/increment.h"
#include "cuda/kernels.h"
#include "tuning.h"

namespace terse::cuda {
namespace {

using kernels::Kernel;
using kernels::Table;

Kernel kernel_for(const kernels::KernelId& id) {
  // By bits, from codec::kMinBits on.
  static const Table<Kernel>* const tables[] = {&kernels::kernels<2>(), &kernels::kernels<3>(),
                                                &kernels::kernels<4>(), &kernels::kernels<5>(),
                                                &kernels::kernels<6>(), &kernels::kernels<7>(),
                                                &kernels::kernels<8>()};
  return tables[id.spec.bits - codec::kMinBits]->find(id);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

Launcher::Launcher(int device) {
  const int capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                         attribute(cudaDevAttrComputeCapabilityMinor, device);
  const OnDevice on(device);
  cudaFuncAttributes attributes;
  const cudaError_t found = cudaFuncGetAttributes(&attributes, kernels::increment());
  if (found != cudaSuccess) {
    forget(found);
    fail(ncclSystemError,
         "terse has no code for device {} of compute capability {}.{}, or its driver is too old: "
         "{}",
         device, capability / 10, capability % 10, cudaGetErrorString(found));
  }
  thread_blocks_ = static_cast<uint64_t>(attribute(cudaDevAttrMultiProcessorCount, device)) *
                   kernels::tuning_for(capability).thread_blocks_per_sm;
}

void Launcher::combine(cudaStream_t stream, const std::vector<codec::Combine>& works,
                       const uint64_t* replays) const {
  kernels::make_batches(
      works, replays,
      [&](const kernels::KernelId& id, const kernels::Batch& batch) { launch(stream, id, batch); });
}

void Launcher::launch(cudaStream_t stream, const kernels::KernelId& id,
                      const kernels::Batch& batch) const {
  const uint64_t units = kernels::thread_blocks(batch);
  void* arguments[] = {const_cast<kernels::Batch*>(&batch)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_for(id)),
                         dim3(static_cast<unsigned>(std::min(units, thread_blocks_))),
                         dim3(kernels::kThreads), arguments, 0, stream),
        "cudaLaunchKernel");
}

void Launcher::increment(cudaStream_t stream, uint64_t* number) const {
  void* arguments[] = {&number};
  check(cudaLaunchKernel(kernels::increment(), dim3(1), dim3(1), arguments, 0, stream),
        "cudaLaunchKernel");
}

}  // namespace terse::cuda
