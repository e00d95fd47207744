#include "device.h"

#include <stdexcept>

#include "nccl_choice.h"

namespace terse::perf {

#ifndef TERSE_HAVE_CUDA
const Device& cuda_device() {
  throw std::runtime_error(
      "the NCCL in use works on GPU memory, and these programs were built without CUDA");
}
#endif

const Device& device_in_use() {
  static const Device& device = nccl_works_on_host() ? host_device() : cuda_device();
  return device;
}

}  // namespace terse::perf
