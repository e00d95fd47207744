// Flags by which kernels of several ranks wait for each other, on the CPU: words of windows, each
// of which one thread writes.
#pragma once

#include <cstdint>

#include "processor.h"

namespace terse::simt {

// Looks at a flag between two looks at whether to give up.
constexpr uint32_t kSpinsPerLook = 1;

// Gives the flag a value, behind all that the thread has done, and knows to be done.
inline void release(uint32_t* flag, uint32_t value, Site site = Site::here()) {
  internal::processor().release(flag, value, site);
}

// Returns the flag's value; what was before its release is before what the thread does then.
inline uint32_t acquire(const uint32_t* flag, Site site = Site::here()) {
  return internal::processor().acquire(flag, site);
}

// Returns the flag's value, which says nothing of what was before its release.
inline uint32_t relaxed_load(const uint32_t* flag, Site site = Site::here()) {
  return internal::processor().relaxed_load(flag, site);
}

// Lets others go on, between two looks at a flag.
inline void pause(Site site = Site::here()) { internal::processor().pause(site); }

}  // namespace terse::simt
