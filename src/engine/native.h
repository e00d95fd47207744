// A call as NCCL itself does it.
#pragma once

#include "engine/request.h"
#include "nccl/table.h"

namespace terse {

ncclResult_t call_native(const NcclTable& nccl, const Request& request);

}  // namespace terse
