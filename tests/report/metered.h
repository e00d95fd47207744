// Where this is included every call is timed, and one in two is compared, as all ranks choose.
#pragma once

#include <cstdlib>

#include "engine/comm/directory.h"
#include "engine/observe/choice.h"
#include "own_settings.h"

namespace terse::test {

[[maybe_unused]] inline const bool metered = [] {
  setenv("TERSE_METER", "1", 1);
  setenv("TERSE_VERIFY", "2", 1);
  return true;
}();

// Whether call `k` of all ranks is compared, but for the first of its kind, which always is.
inline bool is_compared(ncclComm_t comm, size_t k) {
  return is_chosen(2, communicator(comm)->agreed().ordinal(), k);
}

// How many of that many calls of one kind are.
inline size_t compared_of(ncclComm_t comm, size_t calls) {
  size_t sum = 1;
  for (size_t k = 1; k < calls; ++k) sum += is_compared(comm, k);
  return sum;
}

}  // namespace terse::test
