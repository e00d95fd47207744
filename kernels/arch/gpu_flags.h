// Flags on a GPU: words of memory that other GPUs write. tests/tools/simt/flags.h has the same
// interface for the CPU.
#pragma once

#include <cstdint>

#include "kernels/arch/arch.h"

namespace terse::simt {

// Looks at a flag between two looks at whether to give up, which may be a read over PCIe.
constexpr uint32_t kSpinsPerLook = 256;

// Gives the flag a value, behind all that the thread has done, and knows to be done.
TERSE_DEVICE void release(uint32_t* flag, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}
TERSE_DEVICE void release(uint64_t* flag, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(flag), "l"(value) : "memory");
}

// Returns the flag's value; what was before its release is before what the thread does then.
TERSE_DEVICE uint32_t acquire(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
TERSE_DEVICE uint64_t acquire(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

// Returns the flag's value, which says nothing of what was before its release.
TERSE_DEVICE uint32_t relaxed_load(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

TERSE_DEVICE uint64_t relaxed_load(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

// Gives the flag a value that says nothing of what was before.
TERSE_DEVICE void relaxed_store(uint32_t* flag, uint32_t value) { release(flag, value); }

// As release(), for the host alone.
TERSE_DEVICE void release_to_host(uint32_t* flag, uint32_t value) { release(flag, value); }

// Lets others go on, between two looks at a flag.
TERSE_DEVICE void pause() { __nanosleep(40); }

}  // namespace terse::simt
