// Operators that the program makes: what they multiply by is remembered, for calls with them that
// are compressed.
#include "engine/communicator.h"
#include "interpose/next.h"
#include "policy/settings.h"

using namespace terse;
using namespace terse::interpose;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return ours("ncclRedOpCreatePreMulSum", [&] {
    const ncclResult_t result = call(next().RedOpCreatePreMulSum, "ncclRedOpCreatePreMulSum", op,
                                     scalar, datatype, residence, comm);
    if (result == ncclSuccess && settings().policy.compresses())
      communicator(comm).operators.add(*op, scalar, datatype, residence);
    return result;
  });
}

// A call that is enqueued, or waits for its group's end, has its own copy.
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return ours("ncclRedOpDestroy", [&] {
    if (Communicator* known = find_communicator(comm)) known->operators.remove(op);
    return call(next().RedOpDestroy, "ncclRedOpDestroy", op, comm);
  });
}

}  // extern "C"
#pragma GCC visibility pop
