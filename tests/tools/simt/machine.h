// Runs kernels of several ranks at once, each rank's one after another, as streams of several GPUs
// do. Which rank, which thread block and which thread goes on is drawn, and so is when the value of
// a flag arrives, in any order between different flags.
//
// The blocks of a kernel are all there from its beginning, as those of a cooperative launch are.
// That all wait, and no flag is on its way, is a Fault that says who waits for which flag.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "executor.h"
#include "window_memory.h"

namespace terse::simt {

struct Kernel {
  Launch launch;  // its seed does not count
  size_t shared_bytes, shared_alignment;
  std::function<void(void* shared)> body;
};

template <class Shared, class Body>
Kernel kernel(const Launch& launch, Body body) {
  static_assert(std::is_trivially_default_constructible_v<Shared> &&
                std::is_trivially_copyable_v<Shared>);
  return {launch, sizeof(Shared), alignof(Shared),
          [body](void* shared) { body(*static_cast<Shared*>(shared)); }};
}

struct Machine {
  std::vector<RankWindow> windows;         // besides registered Memory, all that kernels may touch
  std::vector<std::vector<Kernel>> ranks;  // what each runs
  uint64_t seed = 0;
};

// Throws a Fault at what a kernel does wrong.
void run(const Machine& machine);

// Runs a kernel alone, of which the blocks take turns. Its flags are memory that kernels of other
// OS threads and processes write. Throws a Fault.
void run_with_flags(const Kernel& kernel);

}  // namespace terse::simt
