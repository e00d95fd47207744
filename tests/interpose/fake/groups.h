// For fakes that do something at the end of a thread's outermost group.
#pragma once

#include <nccl.h>

// Not by the names that a preload library may have.
extern "C" decltype(ncclGroupStart) pncclGroupStart;
extern "C" decltype(ncclGroupEnd) pncclGroupEnd;

inline thread_local int t_depth = 0;

inline ncclResult_t start_group() {
  const ncclResult_t result = pncclGroupStart();
  if (result == ncclSuccess) ++t_depth;
  return result;
}

// `at_end`: of the outermost one, with what hostnccl says of it, for what the program is told.
template <class AtEnd>
ncclResult_t end_group(const AtEnd& at_end) {
  const ncclResult_t result = pncclGroupEnd();
  if (t_depth == 0 || --t_depth > 0) return result;
  return at_end(result);
}
