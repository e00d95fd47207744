// Collectives and messages: compressed as the policy says, or handed on with the caller's own
// arguments.
#include "engine/call/intercept.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "interpose/async_init.h"
#include "interpose/call_config.h"
#include "interpose/intercepted_group.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// Calls call_config_of(); its errors name the call's communicator if terse knows it.
std::optional<CallConfig> signed_config_of(const Request& request, const ncclCollConfig_t& config) {
  if (const CommunicatorPointer known = find_communicator(request.comm))
    return known->with_context([&] { return call_config_of(config); });
  return call_config_of(config);
}

// Null: there is no configuration.
Interception offer_with(Request request, const ncclCollConfig_t* config) {
  if (config != nullptr) {
    std::optional<CallConfig> parsed = signed_config_of(request, *config);
    if (!parsed) return {};
    request.config = std::move(*parsed);
  }
  return intercept(request, settings());
}

// `function`: NCCL's.
template <class Find, class... Args>
ncclResult_t taken_or_called(const char* name, const Request& request,
                             const ncclCollConfig_t* config, const Find& function, Args... args) {
  return ours(name, [&] {
    if (InNccl::here()) return call(function(), name, args...);
    const InNccl in_nccl;  // covers what the engine asks of NCCL
    try {
      require_initialized(request.comm);
      if (const Interception answer = offer_with(request, config); answer.result)
        return *answer.result;
      return call(function(), name, args...);
    } catch (...) {
      group_refuses(request);
      fail_group();
      throw;
    }
  });
}

template <class Function, class... Args>
ncclResult_t collective(const char* name, const Request& request, Function NcclTable::*next_one,
                        Args... args) {
  return taken_or_called(
      name, request, nullptr, [&] { return next().library->nccl.*next_one; }, args...);
}

template <class Function, class... Args>
ncclResult_t configured(const char* name, const Request& request, Function Next::*next_one,
                        const ncclCollConfig_t* config, Args... args) {
  return taken_or_called(
      name, request, config, [&] { return next().*next_one; }, args..., config);
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
      nullptr, [] { return next().Bcast; }, buffer, count, datatype, root, comm, stream);
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

ncclResult_t ncclAllReduceConfig(const void* send, void* recv, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured("ncclAllReduceConfig",
                    {Collective::kAllReduce, send, recv, count, datatype, op, comm, stream},
                    &Next::AllReduceConfig, config, send, recv, count, datatype, op, comm, stream);
}

ncclResult_t ncclAllGatherConfig(const void* send, void* recv, size_t count,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config) {
  return configured("ncclAllGatherConfig",
                    {Collective::kAllGather, send, recv, count, datatype, ncclSum, comm, stream},
                    &Next::AllGatherConfig, config, send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclReduceScatterConfig(const void* send, void* recv, size_t count,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured("ncclReduceScatterConfig",
                    {Collective::kReduceScatter, send, recv, count, datatype, op, comm, stream},
                    &Next::ReduceScatterConfig, config, send, recv, count, datatype, op, comm,
                    stream);
}

ncclResult_t ncclAlltoAllConfig(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config) {
  return configured("ncclAlltoAllConfig",
                    {Collective::kAllToAll, send, recv, count, datatype, ncclSum, comm, stream},
                    &Next::AlltoAllConfig, config, send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclBroadcastConfig(const void* send, void* recv, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured(
      "ncclBroadcastConfig",
      {Collective::kBroadcast, send, recv, count, datatype, ncclSum, comm, stream, root},
      &Next::BroadcastConfig, config, send, recv, count, datatype, root, comm, stream);
}

ncclResult_t ncclReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t* config) {
  return configured("ncclReduceConfig",
                    {Collective::kReduce, send, recv, count, datatype, op, comm, stream, root},
                    &Next::ReduceConfig, config, send, recv, count, datatype, op, root, comm,
                    stream);
}

ncclResult_t ncclGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                              int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t* config) {
  return configured("ncclGatherConfig",
                    {Collective::kGather, send, recv, count, datatype, ncclSum, comm, stream, root},
                    &Next::GatherConfig, config, send, recv, count, datatype, root, comm, stream);
}

ncclResult_t ncclScatterConfig(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                               int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return configured(
      "ncclScatterConfig",
      {Collective::kScatter, send, recv, count, datatype, ncclSum, comm, stream, root},
      &Next::ScatterConfig, config, send, recv, count, datatype, root, comm, stream);
}

}  // extern "C"
#pragma GCC visibility pop
