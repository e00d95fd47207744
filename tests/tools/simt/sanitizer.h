// The address sanitizer's view of fibers; nothing in other builds. (TERSE_SIMT_ASAN: by CMake, for
// the executor itself is not instrumented.)
#pragma once

#include <cstddef>

#ifdef TERSE_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace terse::simt::internal {

#ifdef TERSE_SIMT_ASAN
constexpr bool kAsan = true;

// Before and after a switch of stacks. `frames` keeps the left stack's frames in the sanitizer's
// own memory; null: the stack is left for good.
inline void start_switch(void** frames, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(frames, bottom, size);
}
inline void finish_switch(void* frames, const void** old_bottom, size_t* old_size) {
  __sanitizer_finish_switch_fiber(frames, old_bottom, old_size);
}
inline void forget_memory(const void* data, size_t bytes) {
  __asan_unpoison_memory_region(data, bytes);
}
#else
constexpr bool kAsan = false;
inline void start_switch(void**, const void*, size_t) {}
inline void finish_switch(void*, const void**, size_t*) {}
inline void forget_memory(const void*, size_t) {}
#endif

}  // namespace terse::simt::internal
