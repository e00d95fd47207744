// Configuration of a single call.
#pragma once

#include <nccl.h>
#include <nccl_config.h>

#include <optional>

#include "engine/comm/request.h"

namespace terse::interpose {

// Parses a configuration. Empty: NCCL refuses it, and reports that. Throws
// Error(ncclInvalidArgument) for an invalid option of terse's.
std::optional<CallConfig> call_config_of(const ncclCollConfig_t& config);

}  // namespace terse::interpose
