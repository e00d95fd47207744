// A call that goes to NCCL as it is.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// Within an NCCL group. Where NCCL is older than the collective, it is the sends and receives that
// it consists of; throws Error(ncclInvalidUsage) where it cannot be.
ncclResult_t call_native(const Communicator& c, const Request& request);

}  // namespace terse
