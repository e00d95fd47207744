// Windows of GPUs: memory that the ranks of a node open to each other, by its address in one
// process, by CUDA IPC between processes.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/process_watch.h"
#include "backend/windows.h"
#include "kernels/device.h"
#include "kernels/device/exchange.h"
#include "kernels/launch.h"
#include "kernels/pool.h"

namespace terse::cuda {

// Memory of windows on one device, and what else these have in common there.
class WindowPool {
 public:
  // Kernels of different communicators that wait for peers at the same time must all find room on
  // the device: each has a part of it.
  static constexpr int kMaxCommunicators = 3;

  explicit WindowPool(const Device& device) : device_(device) {}

  struct Block {
    char* memory = nullptr;
    size_t bytes = 0;
    // Ranks that have the memory open and may write there, by which each says that it does no more.
    uint32_t ranks = 0, self = 0;
    bool is_exported = false;  // other processes may have opened it, and freeing it is not defined
  };

  // Returns the permit of a communicator to have windows here. Throws Error if kMaxCommunicators
  // hold one.
  std::shared_ptr<void> permit();
  // Takes memory in which the header is 0. Throws Error if there is none.
  Block take(size_t bytes);
  // Puts memory back, which is taken again once all its ranks have said that they are gone.
  void put(const Block& block) noexcept;
  // Frees memory that its ranks have left, unless it is exported.
  void trim() noexcept;

  // Stream for what is no call, of one thread at a time.
  class Service {
   public:
    explicit Service(WindowPool& pool);
    // Copies memory of the host, pageable, to a device, or back.
    void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const;

   private:
    const std::lock_guard<std::mutex> lock_;
    const cudaStream_t stream_;
  };

 private:
  cudaStream_t service_stream();
  bool is_left(const Block& block);

  const Device& device_;
  std::mutex mutex_, service_mutex_;
  std::vector<Block> put_;
  size_t taken_ = 0;
  int permits_ = 0;
  cudaStream_t stream_ = nullptr;
};

class GpuWindows final : public Windows {
 public:
  // What there is of the device, which outlives it.
  struct Means {
    const Device& device;
    const Launcher& launcher;
    WindowPool& pool;
    Pool& visible;
  };

  // Throws Error.
  GpuWindows(const Means& means, const WindowRequest& request);
  ~GpuWindows() override;

  WindowHandle handle() const override;
  void open(std::span<const WindowHandle> by_rank) override;
  // Starts the check, by kernels of all ranks, which wait for each other.
  void write_pattern() override;
  void check_pattern() override;

  // Has no effect: see name_in_steps().
  void name(uint64_t, const codec::CallHeader&) override {}
  void follow(Windows* earlier) override { earlier_ = static_cast<GpuWindows*>(earlier); }
  char* area(int rank, size_t number) const override;
  bool counts_turns() const override { return true; }

  // Enqueues the name of a call that is done in steps, for peers that wait here and in windows
  // before these.
  void name_in_steps(cudaStream_t stream, uint64_t number, const codec::CallHeader& call) const;

  // Enqueues a call behind those before it, on whatever stream, recorded or not.
  void fuse(cudaStream_t stream, const FusedCall& call, bool is_recorded);

 private:
  // Words that the host and the kernels share.
  struct Words {
    uint32_t abort;                        // not 0: the check ends
    uint32_t left;                         // a bit of each rank whose process has ended
    uint32_t wrong[kernels::kMaxWindows];  // by rank, of the check; its own: it was in vain
  };

  template <class Visit>
  void each_peer(const Visit& visit) const {
    for (int k = 1; k < ranks_; ++k) visit((rank_ + k) % ranks_);
  }
  void open(int peer, const WindowHandle& handle);
  // Notes in a peer's window that this rank has left.
  void mark_gone(char* window) const;
  size_t area_offset(size_t number) const;
  void fill(kernels::Exchange& exchange) const;
  bool has_ended(std::chrono::seconds patience) const;
  void destroy() noexcept;

  const Means means_;
  const int rank_, ranks_;
  const size_t area_bytes_;
  const Kinds kinds_;
  const bool may_share_gpu_;
  const uint64_t nonce_;
  WindowPool::Block block_;
  std::array<char*, kernels::kMaxWindows> of_rank_{};
  std::array<bool, kernels::kMaxWindows> by_ipc_{};
  std::array<uint64_t, kernels::kMaxWindows> nonces_{};
  uint32_t blocks_ = 0;  // max thread blocks of a call, alike on all ranks
  Words* words_ = nullptr;
  cudaStream_t stream_ = nullptr;  // of the check
  cudaEvent_t last_ = nullptr;     // end of the last call
  bool has_recorded_ = false;
  bool is_used_ = false;  // all ranks have opened all windows, and may write there
  GpuWindows* earlier_ = nullptr;
  std::list<ProcessWatch> peers_ends_;
};

}  // namespace terse::cuda
