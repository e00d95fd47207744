// A call's own configuration, as terse takes it.
#pragma once

#include <nccl.h>
#include <nccl_config.h>

#include <optional>

#include "engine/comm/request.h"

namespace terse::interpose {

// Parses a configuration. Empty: NCCL refuses it, and is to say so. Throws
// Error(ncclInvalidArgument) for an option of terse's that cannot be.
std::optional<CallConfig> call_config_of(const ncclCollConfig_t& config);

}  // namespace terse::interpose
