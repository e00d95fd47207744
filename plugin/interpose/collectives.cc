// The collectives and messages: compressed as the policy says, or handed on with the caller's own
// arguments.
#include "engine/call/group.h"
#include "engine/call/trace.h"
#include "engine/comm/directory.h"
#include "interpose/group.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// In a group the messages between two ranks keep their order, whichever of them are compressed, and
// all are under way at once: so the engine takes them all.
bool joins(const Request& r) {
  return plan::is_point_to_point(r.collective) && group_depth() > 0 &&
         settings().policy.compresses(r.collective);
}

// Unlike libterse, this library sees communicators come and go, and need not ask NCCL whether this
// is still the same one.
CommunicatorPointer state_of(ncclComm_t comm) {
  CommunicatorPointer known = find_communicator(comm);
  return known != nullptr ? known : communicator(comm);
}

// Compresses the call, or counts why not; then NCCL gets it as it is. What cannot be right goes to
// NCCL too, for its own answer.
bool taken(const Request& r) {
  if (r.comm == nullptr || datatype_size(r.datatype) == 0) return false;
  const Settings& s = settings();
  require_valid(s);  // which only creation that does not block has left to us
  if (!s.policy.compresses()) {
    if (const auto known = find_communicator(r.comm)) {
      trace(*known, r, TERSE_BYPASS_OFF);
      count_bypass(*known, r, TERSE_BYPASS_OFF);
    }
    return false;
  }
  const CommunicatorPointer held = state_of(r.comm);
  Communicator& c = *held;
  if (waits_for_nodes(c, r)) {
    if (group_depth() > 0) return defer(c, r), true;
    const Waiting alone{&c, &r};
    introduce({&alone, 1});
  }
  const Route way = route(c, r);
  if (way.bypass) count_bypass(c, r, *way.bypass);
  if (way.bypass && !joins(r)) return false;
  submit(c, r, way);
  return true;
}

// `function`: NCCL's.
template <class Find, class... Args>
ncclResult_t taken_or_called(const char* name, const Request& request, const Find& function,
                             Args... args) {
  return ours(name, [&] {
    try {
      if (taken(request)) return ncclSuccess;
      return call(function(), name, args...);
    } catch (...) {
      fail_group();
      throw;
    }
  });
}

template <class Function, class... Args>
ncclResult_t collective(const char* name, const Request& request, Function NcclTable::*next_one,
                        Args... args) {
  return taken_or_called(
      name, request, [&] { return next().library->nccl.*next_one; }, args...);
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
                    &NcclTable::AllReduce, send, recv, count, datatype, op, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllGather",
                    {Collective::kAllGather, send, recv, count, datatype, ncclSum, comm, stream},
                    &NcclTable::AllGather, send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter",
                    {Collective::kReduceScatter, send, recv, count, datatype, op, comm, stream},
                    &NcclTable::ReduceScatter, send, recv, count, datatype, op, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAlltoAll",
                    {Collective::kAllToAll, send, recv, count, datatype, ncclSum, comm, stream},
                    &NcclTable::AlltoAll, send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      "ncclBroadcast",
      {Collective::kBroadcast, send, recv, count, datatype, ncclSum, comm, stream, root},
      &NcclTable::Broadcast, send, recv, count, datatype, root, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return taken_or_called(
      "ncclBcast",
      {Collective::kBroadcast, buffer, buffer, count, datatype, ncclSum, comm, stream, root},
      [] { return next().Bcast; }, buffer, count, datatype, root, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduce",
                    {Collective::kReduce, send, recv, count, datatype, op, comm, stream, root},
                    &NcclTable::Reduce, send, recv, count, datatype, op, root, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclGather",
                    {Collective::kGather, send, recv, count, datatype, ncclSum, comm, stream, root},
                    &NcclTable::Gather, send, recv, count, datatype, root, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      "ncclScatter",
      {Collective::kScatter, send, recv, count, datatype, ncclSum, comm, stream, root},
      &NcclTable::Scatter, send, recv, count, datatype, root, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return collective(
      "ncclSend", {Collective::kSend, send, nullptr, count, datatype, ncclSum, comm, stream, peer},
      &NcclTable::Send, send, count, datatype, peer, comm, stream);
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return collective(
      "ncclRecv", {Collective::kRecv, nullptr, recv, count, datatype, ncclSum, comm, stream, peer},
      &NcclTable::Recv, recv, count, datatype, peer, comm, stream);
}

}  // extern "C"
#pragma GCC visibility pop
