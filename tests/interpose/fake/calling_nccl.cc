// A library of the program's with an NCCL inside it, whose ncclBcast is a call of its exported
// ncclBroadcast, as NCCL has it.
#include <nccl.h>

extern "C" ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t datatype, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(data, data, count, datatype, root, comm, stream);
}
