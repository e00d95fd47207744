// Operators that the program makes: remembers their factors, for compressed calls.
#include "interpose/retired_operators.h"

#include <utility>
#include <vector>

#include "base/thread_local.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "interpose/async_init.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

struct Retired {
  ncclRedOp_t op;
  ncclComm_t comm;
};

// Operators of the thread's group.
struct RetiredOperators {
  std::vector<Retired> all;
};

}  // namespace

void destroy_retired_operators() noexcept {
  RetiredOperators* const retired = ThreadLocal<RetiredOperators>::find();
  if (retired == nullptr) return;
  for (const Retired& r : std::exchange(retired->all, {})) {
    const CommunicatorPointer known = find_communicator(r.comm);
    if (known == nullptr) continue;  // gone, with all of its operators
    known->routing().operators().remove(r.op);
    if (next().RedOpDestroy != nullptr) next().RedOpDestroy(r.op, r.comm);
  }
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return ours("ncclRedOpCreatePreMulSum", [&] {
    require_initialized(comm);
    const ncclResult_t result = call(next().RedOpCreatePreMulSum, "ncclRedOpCreatePreMulSum", op,
                                     scalar, datatype, residence, comm);
    if (result == ncclSuccess && settings().policy.compresses())
      communicator(comm, settings())->routing().operators().add(*op, scalar, datatype, residence);
    return result;
  });
}

// An enqueued call has its own copy. A call pending at its group's end may yet be NCCL's.
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return ours("ncclRedOpDestroy", [&] {
    if (group_depth() > 0 && op >= ncclNumOps && group_reduces_by(comm, op)) {
      ThreadLocal<RetiredOperators>::get().all.push_back({op, comm});
      return ncclSuccess;
    }
    if (const auto known = find_communicator(comm)) known->routing().operators().remove(op);
    return call(next().RedOpDestroy, "ncclRedOpDestroy", op, comm);
  });
}

}  // extern "C"
#pragma GCC visibility pop
