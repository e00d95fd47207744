// A thread block: its warps, shared memory, and what its launch has given it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "program.h"
#include "simt/executor.h"
#include "simt/random.h"
#include "warp.h"

namespace terse::machine {

class Block {
 public:
  Block(const Program& program, std::span<const uint8_t> parameters, const simt::Launch& launch,
        uint32_t index);

  // Runs all threads to their end; returns how many instructions warps have issued. Throws
  // simt::Fault.
  uint64_t run();

  const Program& program() const { return program_; }
  uint32_t index() const { return index_; }
  simt::internal::Random& random() { return random_; }
  // 0 to n - 1, the same for a value wherever the launch asks.
  uint32_t draw_for(uint32_t value, uint32_t n) const {
    return simt::internal::Random(seed_ << 32 ^ value).below(n);
  }
  std::span<const uint8_t> bank(uint32_t number) const;
  // Throws a fault if the bytes are not all in shared memory, or not aligned.
  uint8_t* shared(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes);

 private:
  void make_bank(std::span<const uint8_t> parameters, const simt::Launch& launch);
  void release_barrier();

  const Program& program_;
  const uint32_t index_;
  const uint64_t max_steps_, seed_;
  simt::internal::Random random_;
  std::vector<uint8_t> bank0_, shared_;
  uint32_t shared_begin_;
  std::deque<Warp> warps_;
};

}  // namespace terse::machine
