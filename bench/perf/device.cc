#include "device.h"

#include <stdexcept>

#include "nccl_choice.h"

namespace terse::perf {

#ifndef TERSE_HAVE_CUDA
const Device& CudaDevice() {
  throw std::runtime_error(
      "the NCCL in use works on GPU memory, and these programs were built without CUDA");
}
#endif

const Device& DeviceInUse() {
  static const Device& device = NcclWorksOnHost() ? HostDevice() : CudaDevice();
  return device;
}

}  // namespace terse::perf
