// Interception of a program's NCCL calls by the preload library.
#pragma once

#include <optional>

#include "engine/comm/request.h"
#include "policy/settings.h"

namespace terse {

struct Interception {
  // Result of a call that terse takes: it is enqueued, or will be at the end of the thread's group.
  // Empty: the call goes to NCCL with the caller's own arguments.
  std::optional<ncclResult_t> result = {};
  // Reason of a native call, a TERSE_BYPASS number, which is counted. Empty if it is compressed, if
  // that is decided at the group's end, and if its arguments are invalid, which NCCL reports. An
  // observed call waits for end_observations().
  std::optional<int> bypass = {};
};

// Decides on a call by the settings' policy; the settings last as long as the process. Throws
// Error.
Interception intercept(ncclComm_t comm, const Request& request, const Settings& settings);

}  // namespace terse
