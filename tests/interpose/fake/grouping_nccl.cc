// hostnccl in which a group of splits has the mode of what is split, as in NCCL: where that blocks,
// the parts are there at the group's end, also those that do not block.
#include <utility>
#include <vector>

#include "groups.h"

namespace {

thread_local std::vector<ncclComm_t> t_wholes;  // all of them block

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclCommSplit) pncclCommSplit;
extern decltype(ncclCommGetAsyncError) pncclCommGetAsyncError;

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart() { return start_group(); }

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  if (t_depth > 0) t_wholes.push_back(comm);
  return pncclCommSplit(comm, color, key, made, config);
}

ncclResult_t ncclGroupEnd() {
  return end_group([](ncclResult_t result) {
    for (const ncclComm_t whole : std::exchange(t_wholes, {})) {
      ncclResult_t state = ncclInProgress;
      while (state == ncclInProgress) pncclCommGetAsyncError(whole, &state);
      if (result == ncclSuccess || result == ncclInProgress) result = state;
    }
    return result;
  });
}

#pragma GCC visibility pop

}  // extern "C"
