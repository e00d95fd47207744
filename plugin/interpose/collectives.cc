// The collectives: compressed by the scheme in TERSE_SCHEME, or handed on with the caller's own
// arguments.
#include "engine/group.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// Compresses the call, or counts why not; then NCCL gets it as it is. What cannot be right goes to
// NCCL too, for its own answer.
bool compressed(const Request& r) {
  if (r.comm == nullptr || datatype_size(r.datatype) == 0) return false;
  if (!settings().policy.compresses()) {
    if (Communicator* known = find_communicator(r.comm)) count_bypass(*known, r, TERSE_BYPASS_OFF);
    return false;
  }
  Communicator& c = communicator(r.comm);
  const Route way = route(c, r);
  if (way.bypass)
    count_bypass(c, r, *way.bypass);
  else
    submit(c, r, way);
  return !way.bypass;
}

template <class Forward>
ncclResult_t collective(const char* call, const Request& request, Forward forward) {
  return ours(call,
              [&] { return compressed(request) ? ncclSuccess : forward(next().library->nccl); });
}

}  // namespace
}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;
using terse::plan::Collective;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce",
                    {Collective::kAllReduce, send, recv, count, datatype, op, comm, stream},
                    [&](const NcclTable& n) {
                      return n.AllReduce(send, recv, count, datatype, op, comm, stream);
                    });
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(
      "ncclAllGather", {Collective::kAllGather, send, recv, count, datatype, ncclSum, comm, stream},
      [&](const NcclTable& n) { return n.AllGather(send, recv, count, datatype, comm, stream); });
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter",
                    {Collective::kReduceScatter, send, recv, count, datatype, op, comm, stream},
                    [&](const NcclTable& n) {
                      return n.ReduceScatter(send, recv, count, datatype, op, comm, stream);
                    });
}

}  // extern "C"
#pragma GCC visibility pop
