// A library of the program's with an NCCL inside it, whose ncclBcast is a call of its exported
// ncclBroadcast, and whose functions first ask its exported ncclCommGetAsyncError whether the
// communicator is ready, as NCCL has it (ncclCommEnsureReady).
#include <nccl.h>

extern "C" {

// This library's own, not those that a preload library has.
[[gnu::visibility("hidden")]] extern decltype(ncclCommCount) pncclCommCount;
[[gnu::visibility("hidden")]] extern decltype(ncclCommUserRank) pncclCommUserRank;

ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(data, data, count, datatype, root, comm, stream);
}

static ncclResult_t require_ready(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  if (asked != ncclSuccess) return asked;
  return state == ncclInProgress ? ncclInvalidArgument : state;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const ncclResult_t ready = require_ready(comm);
  return ready == ncclSuccess ? pncclCommCount(comm, count) : ready;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const ncclResult_t ready = require_ready(comm);
  return ready == ncclSuccess ? pncclCommUserRank(comm, rank) : ready;
}

}  // extern "C"
