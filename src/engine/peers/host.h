// Which machine this process runs on, as NCCL tells machines apart.
#pragma once

#include <cstdint>

#include "policy/settings.h"

namespace terse {

// The same for all processes of a machine: of NCCL_HOSTID as the settings give it, or else of its
// name and boot id.
uint64_t host_hash(const Settings& settings);

}  // namespace terse
