// hostnccl in which the aborts of a group are done at its end, as NCCL's are.
#include <utility>
#include <vector>

#include "groups.h"

namespace {

thread_local std::vector<ncclComm_t> t_aborts;

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclCommAbort) pncclCommAbort;

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart() { return start_group(); }

ncclResult_t ncclGroupEnd() {
  return end_group([](ncclResult_t result) {
    for (const ncclComm_t comm : std::exchange(t_aborts, {})) {
      const ncclResult_t aborted = pncclCommAbort(comm);
      if (result == ncclSuccess) result = aborted;
    }
    return result;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (t_depth == 0) return pncclCommAbort(comm);
  t_aborts.push_back(comm);
  return ncclSuccess;
}

#pragma GCC visibility pop

}  // extern "C"
