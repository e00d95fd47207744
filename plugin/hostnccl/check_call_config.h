// The configuration of a single call.
#pragma once

#include <nccl_config.h>

namespace hostnccl {

// Throws Failure(ncclInvalidArgument) for what NCCL refuses in one; null is none. All that it asks
// for is of NCCL's GPU algorithms, of which there are none here.
void check_call_config(const ncclCollConfig_t* config);

}  // namespace hostnccl
