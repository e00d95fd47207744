// The preload library's door: what becomes of a call that a program makes to NCCL.
#pragma once

#include <optional>

#include "engine/comm/request.h"
#include "policy/settings.h"

namespace terse {

struct Interception {
  // The call is terse's, and that is its result: it is enqueued, or will be at the end of the
  // thread's group. Empty: NCCL is to have it, with the caller's own arguments.
  std::optional<ncclResult_t> result = {};
  // Why it stays native, a TERSE_BYPASS reason, which is counted. Empty where it is compressed,
  // where that is decided at the group's end, and where the call cannot be right: then NCCL is to
  // say so.
  std::optional<int> bypass = {};
};

// As the settings' policy says, which last as long as the process. Throws Error.
Interception intercept(const Request& request, const Settings& settings);

}  // namespace terse
