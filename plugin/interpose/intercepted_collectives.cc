// Collectives and messages: compressed as the policy says, or handed on with the caller's own
// arguments. Their functions, ncclAllReduce to ncclScatterConfig, are made of nccl_collectives.inc.
#include <nccl_signatures.h>

#include "engine/call/intercept.h"
#include "engine/call/observation.h"
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
std::optional<CallConfig> config_with_context(ncclComm_t comm, const ncclCollConfig_t& config) {
  if (const CommunicatorPointer known = find_communicator(comm))
    return known->with_context([&] { return call_config_of(config); });
  return call_config_of(config);
}

// Null: there is no configuration.
Interception intercept_with(ncclComm_t comm, Request request, const ncclCollConfig_t* config) {
  if (config != nullptr) {
    std::optional<CallConfig> parsed = config_with_context(comm, *config);
    if (!parsed) return {};
    request.config = std::move(*parsed);
  }
  return intercept(comm, request, settings());
}

// `function`: NCCL's.
template <class Find, class... Args>
ncclResult_t taken_or_called(const char* name, ncclComm_t comm, const Request& request,
                             const ncclCollConfig_t* config, const Find& function, Args... args) {
  return ours(name, [&] {
    if (InNccl::here()) return call(function(), name, args...);
    const InNccl in_nccl;  // covers what the engine asks of NCCL
    try {
      require_initialized(comm);
      if (const auto taken = intercept_with(comm, request, config).result) return *taken;
      const ncclResult_t result = call(function(), name, args...);
      if (group_depth() == 0) end_observations(result);
      return result;
    } catch (...) {
      if (group_depth() == 0) end_observations(ncclInternalError);
      group_note_refusal(comm, request);
      fail_group();
      throw;
    }
  });
}

template <class Function, class... Args>
ncclResult_t collective(const char* name, ncclComm_t comm, const Request& request,
                        Function NcclTable::*next_one, Args... args) {
  return taken_or_called(
      name, comm, request, nullptr, [&] { return next().library->nccl.*next_one; }, args...);
}

template <class Function, class... Args>
ncclResult_t configured(const char* name, ncclComm_t comm, const Request& request,
                        Function Next::*next_one, const ncclCollConfig_t* config, Args... args) {
  return taken_or_called(
      name, comm, request, config, [&] { return next().*next_one; }, args..., config);
}

}  // namespace
}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;
using terse::plan::Collective;

#pragma GCC visibility push(default)
extern "C" {

#define NCCL_COLLECTIVE(suffix, form, from, to, name, ...)                                  \
  ncclResult_t nccl##suffix(NCCL_PARAMETERS_##form, ncclComm_t comm, cudaStream_t stream) { \
    return collective("nccl" #suffix, comm,                                                 \
                      request_of(Collective::k##name, NCCL_ALL_ARGUMENTS_##form, stream),   \
                      &NcclTable::suffix, NCCL_ARGUMENTS_##form, comm, stream);             \
  }
#include <nccl_collectives.inc>

#define NCCL_COLLECTIVE(suffix, form, from, to, name, ...)                                        \
  ncclResult_t nccl##suffix##Config(NCCL_PARAMETERS_##form, ncclComm_t comm, cudaStream_t stream, \
                                    const ncclCollConfig_t* config) {                             \
    return configured("nccl" #suffix "Config", comm,                                              \
                      request_of(Collective::k##name, NCCL_ALL_ARGUMENTS_##form, stream),         \
                      &Next::suffix##Config, config, NCCL_ARGUMENTS_##form, comm, stream);        \
  }
#define NCCL_MESSAGE(...)
#include <nccl_collectives.inc>

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return taken_or_called(
      "ncclBcast", comm,
      request_of(Collective::kBroadcast, buffer, buffer, count, datatype, ncclSum, root, stream),
      nullptr, [] { return next().Bcast; }, buffer, count, datatype, root, comm, stream);
}

}  // extern "C"
#pragma GCC visibility pop
