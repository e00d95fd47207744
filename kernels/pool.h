// Memory of one device, or of the host as it sees it, kept for the next who needs some. cudaFree
// and cudaFreeHost wait for everything that runs on the device and on its peers: in a process that
// drives several of them, for kernels of NCCL that wait for what the very thread would do next. So
// nothing goes back to CUDA on the way of a call.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "kernels/device.h"

namespace terse::cuda {

class Pool {
 public:
  struct Source {
    cudaError_t (*allocate)(void** memory, size_t bytes);
    const char* name;  // of what it calls
    cudaError_t (*free)(void* memory);
  };

  explicit Pool(const Source& source) : source_(source) {}

  // Takes memory on the thread's device, which is always the same one. Reuses a block that was put
  // back if it is at most twice too large.
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block* best = nullptr;
    for (Block& b : blocks_)
      if (!b.used && b.bytes >= bytes && b.bytes / 2 <= bytes &&
          (best == nullptr || b.bytes < best->bytes))
        best = &b;
    if (best == nullptr) {
      blocks_.reserve(blocks_.size() + 1);
      void* memory = nullptr;
      check(source_.allocate(&memory, bytes), source_.name);
      best = &blocks_.emplace_back(Block{memory, bytes, false});
    }
    best->used = true;
    return best->memory;
  }

  // Puts memory back, for which all that was enqueued is done.
  void put(void* memory) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(blocks_, memory, &Block::memory);
    if (found != blocks_.end()) found->used = false;
  }

  // Gives back to CUDA what nobody uses.
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [this](const Block& b) {
      if (!b.used) forget(source_.free(b.memory));
      return !b.used;
    });
  }

 private:
  struct Block {
    void* memory;
    size_t bytes;
    bool used;
  };
  const Source source_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace terse::cuda
