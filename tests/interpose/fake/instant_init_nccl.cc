// hostnccl which on rank 0 has always made a communicator by the time that it says how far it is:
// NCCL says ncclSuccess then, also of one that does not block.
#include <nccl.h>

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclCommGetAsyncError) pncclCommGetAsyncError;
extern decltype(ncclCommInitRankConfig) pncclCommInitRankConfig;

__attribute__((visibility("default"))) ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  ncclResult_t state = pncclCommInitRankConfig(comm, ranks, id, rank, config);
  while (rank == 0 && state == ncclInProgress) pncclCommGetAsyncError(*comm, &state);
  return state;
}

}  // extern "C"
