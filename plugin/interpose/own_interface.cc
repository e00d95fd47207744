// Interface of the preload library itself, for programs (terse.h).
#include <string>

#include "engine/call/comm_levels.h"
#include "engine/call/comm_scheme.h"
#include "engine/call/comm_statistics.h"
#include "engine/call/exclusion.h"
#include "engine/call/pause.h"
#include "engine/comm/directory.h"
#include "interpose/async_init.h"
#include "interpose/last_error.h"
#include "interpose/next.h"
#include "policy/settings.h"

using namespace terse;
using namespace terse::interpose;

namespace {

// NCCL is asked about a communicator being initialized by its own thread alone.
void require_known(ncclComm_t comm) {
  if (!is_initializing(comm)) require_exists(comm, settings());
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

terseResult_t tersePreloadExclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges,
                                  size_t count) {
  return ours("tersePreloadExclude", [&] {
    require_initialized(comm);
    require_valid(settings());
    require_known(comm);
    // All is exact if nothing is compressed.
    if (settings().policy.compresses()) exclude(comm, elements, ranges, count, settings());
    return ncclSuccess;
  });
}

terseResult_t tersePreloadPause(ncclComm_t comm, int paused) {
  return ours("tersePreloadPause", [&] {
    require_initialized(comm);
    require_valid(settings());
    if (paused != 0) require_known(comm);
    if (settings().policy.compresses()) pause(comm, paused != 0, settings());
    return ncclSuccess;
  });
}

terseResult_t tersePreloadScheme(ncclComm_t comm, const char* scheme) {
  return ours("tersePreloadScheme", [&] {
    require_initialized(comm);
    require_valid(settings());
    if (scheme != nullptr) require_known(comm);
    if (!settings().policy.compresses()) return ncclSuccess;
    if (scheme != nullptr)
      push_scheme(comm, scheme, settings());
    else
      pop_scheme(comm);
    return ncclSuccess;
  });
}

terseResult_t tersePreloadSetLevels(ncclComm_t comm, const char* levels) {
  return ours("tersePreloadSetLevels", [&] {
    require_initialized(comm);
    require_valid(settings());
    require_known(comm);
    if (settings().policy.compresses()) give_levels(comm, levels, settings());
    return ncclSuccess;
  });
}

terseResult_t tersePreloadGetLevels(ncclComm_t comm, char* text, size_t capacity, size_t* bytes) {
  return ours("tersePreloadGetLevels", [&] {
    if (bytes == nullptr) fail(ncclInvalidArgument, "bytes is null");
    require_known(comm);
    *bytes = get_levels(comm, text, capacity);
    return ncclSuccess;
  });
}

terseResult_t tersePreloadStats(ncclComm_t comm, terseStats_t* stats) {
  return ours("tersePreloadStats", [&] {
    require_known(comm);
    get_statistics(comm, stats);
    return ncclSuccess;
  });
}

int tersePreloadVersion(void) { return TERSE_VERSION_CODE; }

const char* tersePreloadPolicy(void) {
  try {
    // Never destroyed: calls may come while the program exits.
    static const std::string& text = *new std::string(settings().policy.print());
    return settings().error.empty() ? text.c_str() : "";
  } catch (const std::exception&) {
    return "";
  }
}

}  // extern "C"
#pragma GCC visibility pop
