// Native calls to NCCL.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// Calls NCCL within its group. If NCCL lacks the collective, calls the sends and receives that it
// consists of, or throws Error(ncclInvalidUsage).
ncclResult_t call_native(const Communicator& c, const Request& request);

}  // namespace terse
