// Flags by which kernels of several ranks wait for each other, on the CPU: words of windows, of 4
// or 8 bytes. Each is one thread's at a time, unless its values say nothing of what was before.
#pragma once

#include <cstdint>

#include "processor.h"

namespace terse::simt {

// Looks at a flag between two looks at whether to give up.
constexpr uint32_t kSpinsPerLook = 1;

// Gives the flag a value, behind all that the thread has done, and knows to be done.
inline void release(uint32_t* flag, uint32_t value, Site site = Site::here()) {
  internal::processor().release(flag, sizeof *flag, value, site);
}
inline void release(uint64_t* flag, uint64_t value, Site site = Site::here()) {
  internal::processor().release(flag, sizeof *flag, value, site);
}

// Returns the flag's value; what was before its release is before what the thread does then.
template <class Word>
Word acquire(const Word* flag, Site site = Site::here()) {
  return static_cast<Word>(internal::processor().acquire(flag, sizeof *flag, site));
}

// Returns the flag's value, which says nothing of what was before its release.
template <class Word>
Word relaxed_load(const Word* flag, Site site = Site::here()) {
  return static_cast<Word>(internal::processor().relaxed_load(flag, sizeof *flag, site));
}

// Gives the flag a value that says nothing of what was before.
inline void relaxed_store(uint32_t* flag, uint32_t value, Site site = Site::here()) {
  internal::processor().release(flag, sizeof *flag, value, site, false);
}

// As release(), for the host alone.
inline void release_to_host(uint32_t* flag, uint32_t value, Site site = Site::here()) {
  internal::processor().release(flag, sizeof *flag, value, site, false);
}

// Lets others go on, between two looks at a flag.
inline void pause(Site site = Site::here()) { internal::processor().pause(site); }

}  // namespace terse::simt
