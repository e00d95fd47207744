// hostnccl in which the aborts of a group are done at its end, as NCCL's are.
#include <nccl.h>

#include <utility>
#include <vector>

namespace {

thread_local int t_depth = 0;
thread_local std::vector<ncclComm_t> t_aborts;

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclGroupStart) pncclGroupStart;
extern decltype(ncclGroupEnd) pncclGroupEnd;
extern decltype(ncclCommAbort) pncclCommAbort;

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart() {
  const ncclResult_t result = pncclGroupStart();
  if (result == ncclSuccess) ++t_depth;
  return result;
}

ncclResult_t ncclGroupEnd() {
  ncclResult_t result = pncclGroupEnd();
  if (t_depth == 0 || --t_depth > 0) return result;
  for (const ncclComm_t comm : std::exchange(t_aborts, {})) {
    const ncclResult_t aborted = pncclCommAbort(comm);
    if (result == ncclSuccess) result = aborted;
  }
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (t_depth == 0) return pncclCommAbort(comm);
  t_aborts.push_back(comm);
  return ncclSuccess;
}

#pragma GCC visibility pop

}  // extern "C"
