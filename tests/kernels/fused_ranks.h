// Windows of ranks, and fused calls on them, as parameters of kernels, in memory that is up to who
// runs these.
#pragma once

#include <cstring>
#include <deque>
#include <vector>

#include "fused_memory.h"
#include "kernels/device/exchange.h"
#include "plan/fuse.h"

namespace terse::kernels {

// Of the run's calls.
std::vector<plan::Fusion> fusions_of(const FusedRun& run);

// A rank's window. Areas have the same places in all calls: one for what is pushed, one for what is
// shared, and one with two slots.
struct Window {
  Window(size_t pushed, size_t shared, size_t slot, std::pmr::memory_resource* memory)
      : bytes(kWindowHeaderBytes + pushed + shared + 2 * slot + kMemoryAlignment, 0xa5, memory),
        begin(aligned(bytes, 0)),
        areas{begin + kWindowHeaderBytes, begin + kWindowHeaderBytes + pushed,
              begin + kWindowHeaderBytes + pushed + shared},
        end(areas[2] + 2 * slot) {
    std::memset(begin, 0, kWindowHeaderBytes);
  }

  WindowHeader& header() const { return *reinterpret_cast<WindowHeader*>(begin); }

  Storage bytes;
  char* begin;
  char* areas[3];
  char* end;
};

class Windows {
 public:
  Windows(const std::vector<plan::Fusion>& calls, int ranks,
          std::pmr::memory_resource* memory = std::pmr::get_default_resource());

  const Window& of(int rank) const { return windows_[static_cast<size_t>(rank)]; }
  size_t slot_bytes() const { return slot_; }

  // Where what is pushed, or shared, is in the rank's window.
  char* area(const plan::Fused& call, bool shared, int rank) const {
    return of(rank).areas[call.alternates() ? 2 : shared];
  }

  std::deque<Window>& all() { return windows_; }

 private:
  size_t slot_ = 0;
  std::deque<Window> windows_;
};

// A call on one rank, as a kernel.
class FusedRank {
 public:
  FusedRank(const FusedRun& run, size_t number, int rank, const plan::Fused& fused,
            const Windows& windows, uint32_t max_warps, const uint32_t* abort,
            std::pmr::memory_resource* memory = std::pmr::get_default_resource());

  Exchange& exchange() { return batch_.exchange; }
  const FusedBatch& batch() const { return batch_; }

  const Memory& memory() const { return memory_; }

  void clear_result() { std::memset(memory_.recv, 0, memory_.recv_bytes); }

  // Does the call's copies, and returns the result.
  oracle::Bytes finish();

 private:
  Memory memory_;
  Binder binder_;
  const plan::Fused& fused_;
  FusedBatch batch_{};
};

}  // namespace terse::kernels
