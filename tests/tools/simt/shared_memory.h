// A block's shared memory, and who touched which of it when: two accesses to a place of which at
// least one writes must be by the same thread, or have a barrier in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "random.h"
#include "site.h"
#include "warp.h"

namespace terse::simt::internal {

// Time is counted in barriers: each that completes, a block's or a warp's, begins the next tick. An
// access is known to be over when it is older than the last barrier that both threads were at.
class SharedMemory {
 public:
  SharedMemory(size_t bytes, size_t alignment, uint32_t warps);

  void* data() const { return memory_.get(); }

  // Real shared memory is not zeroed.
  void start_block(Random& random);

  void warp_synced(uint32_t warp) { warp_time_[warp] = ++now_; }
  void block_synced();

  // Throw a Fault if the access is wrong.
  void read(const void* from, size_t bytes, uint32_t thread, Site site);
  void write(const void* to, size_t bytes, uint32_t thread, Site site);
  // Atomic additions need no barrier between them, but the block's own before and after.
  void add(const void* to, size_t bytes, uint32_t thread, Site site);

 private:
  static constexpr uint32_t kWordBytes = 4;

  struct Access {
    Site site;
    uint32_t thread = 0;
    uint32_t time = 0;
    bool atomic = false;
  };

  // Of all reads since the last write, two are enough. If warps have read it since the block's last
  // barrier, two by different ones; else, if lanes have since the warp's last barrier, two by
  // different ones: any writer that conflicts with some read conflicts with one of these.
  struct Cell {
    Access write, read, other_read;
  };

  struct Free {
    size_t alignment;
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(alignment));
    }
  };

  enum class Kind { kRead, kWrite, kAdd };

  static const char* name(Kind kind);
  template <Kind kind>
  void touch(const void* at, size_t bytes, const Access& now);
  template <Kind kind>
  void touch(Cell& cell, size_t offset, const Access& now);
  [[noreturn]] void conflict(Kind kind, size_t offset, const Access& now, Kind before_kind,
                             const Access& before) const;
  void add_read(Cell& cell, const Access& now);
  Cell* split(size_t word);

  bool over(const Access& before, const Access& now) const {
    // Of additions only the last one is remembered, whoever else made some.
    if (before.atomic) return now.atomic || before.time < block_time_;
    if (before.thread == now.thread) return true;
    const uint32_t warp = now.thread / kLanes;
    return before.time < (before.thread / kLanes == warp ? warp_time_[warp] : block_time_);
  }

  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  // For each word, and, from the first access to a part of it until the next write of the whole,
  // for each byte.
  std::vector<Cell> words_;
  std::vector<Cell> bytes_of_words_;
  std::vector<bool> is_split_;

  uint32_t now_ = 0;  // ticks; a launch of 2^32 barriers would never end
  uint32_t start_ = 0, block_time_ = 0;
  std::vector<uint32_t> warp_time_;
};

}  // namespace terse::simt::internal
