// Runs kernel source on the CPU. A block's threads are fibers; which of them goes on at a barrier,
// at a warp's collective, and now and then before an access to memory, is drawn from the seed, and
// so is the order of the blocks, which run one after another. What a kernel does wrong is thrown as
// a Fault: see fault.h, global_memory.h and shared_memory.h for what is noticed.
//
// Each OS thread can run kernels of its own; the registered Memory is the OS thread's own, too. The
// destructors of a body's variables must not call functions of arch.h: after a Fault they run while
// the stacks of the other threads are unwound. (A loop without any function of arch.h cannot be
// interrupted.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "fault.h"
#include "global_memory.h"
#include "plant.h"

namespace terse::simt {

struct Launch {
  uint32_t blocks = 1;
  uint32_t threads = 32;  // of a block: at most 1024
  uint64_t seed = 0;
  // Accesses and collectives, about, after which a block counts as one that never ends.
  uint64_t max_steps = 1'000'000'000;
  const Planter* planter = nullptr;  // of mistakes
};

namespace internal {
void run(const Launch& launch, size_t shared_bytes, size_t shared_alignment,
         const std::function<void(void* shared)>& body);
}

// Runs body(shared) for every thread of every block. Each block finds its own Shared full of
// garbage. What a body throws arrives as a Fault with the exception nested in it.
template <class Shared, class Body>
void run(const Launch& launch, Body&& body) {
  static_assert(std::is_trivially_default_constructible_v<Shared> &&
                std::is_trivially_copyable_v<Shared>);
  internal::run(launch, sizeof(Shared), alignof(Shared),
                [&body](void* shared) { body(*static_cast<Shared*>(shared)); });
}

}  // namespace terse::simt
