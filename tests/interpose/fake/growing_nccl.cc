// hostnccl with ncclCommGrow, as NCCL has it since 2.29: as the ranks of a new communicator, whose
// id the ranks of the old one tell each other.
#include <nccl.h>

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclAllReduce) pncclAllReduce;
extern decltype(ncclCommUserRank) pncclCommUserRank;
extern decltype(ncclCommGetAsyncError) pncclCommGetAsyncError;
extern decltype(ncclCommInitRankConfig) pncclCommInitRankConfig;

__attribute__((visibility("default"))) ncclResult_t ncclCommGrow(ncclComm_t whole, int ranks,
                                                                 const ncclUniqueId* known,
                                                                 int rank, ncclComm_t* grown,
                                                                 ncclConfig_t* config) {
  *grown = nullptr;
  ncclUniqueId id{};
  if (known != nullptr) id = *known;
  if (whole != nullptr) {  // one of its ranks knows
    ncclResult_t state = pncclAllReduce(&id, &id, sizeof id, ncclUint8, ncclSum, whole, nullptr);
    while (state == ncclInProgress) pncclCommGetAsyncError(whole, &state);
    if (state != ncclSuccess) return state;
    pncclCommUserRank(whole, &rank);
  }
  const ncclResult_t result = pncclCommInitRankConfig(grown, ranks, id, rank, config);
  return result == ncclInProgress ? ncclSuccess : result;
}

}  // extern "C"
