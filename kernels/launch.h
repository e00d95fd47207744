// Launches the kernels on one device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "codec/call_header.h"
#include "codec/checksum.h"
#include "codec/difference.h"
#include "codec/learning.h"
#include "kernels/device.h"
#include "kernels/device/exchange.h"
#include "kernels/device/window_work.h"

namespace terse::cuda {

class Launcher {
 public:
  // Throws Error: no such device, or one for which there is no code.
  explicit Launcher(const Device& device);

  // Enqueues the works, which do not depend on each other: one launch where they fit in one.
  void combine(cudaStream_t stream, const std::vector<codec::Combine>& works,
               const uint64_t* replays) const;
  void increment(cudaStream_t stream, uint64_t* number) const;
  void compare(cudaStream_t stream, const codec::Comparison& work) const;
  void checksum(cudaStream_t stream, const codec::Checksum& work) const;
  void learn(cudaStream_t stream, const codec::Learning& work) const;
  void run(cudaStream_t stream, const codec::HeaderWork& work) const;

  // Max thread blocks of a fused call: of all that the device holds at once a quarter, or a third.
  uint32_t fused_blocks() const;
  // Enqueues a fused call, whose exchange is filled, on at most so many thread blocks.
  void fuse(cudaStream_t stream, const kernels::FusedBatch& fused, uint32_t max_blocks) const;
  void check_window(cudaStream_t stream, const kernels::WindowCheck& work, uint32_t blocks) const;
  void name_in_steps(cudaStream_t stream, const kernels::CallInSteps& work) const;

 private:
  void launch(cudaStream_t stream, const kernels::KernelId& id, const kernels::Batch& batch) const;

  int compute_capability_ = 0, multiprocessors_ = 0;
};

}  // namespace terse::cuda
