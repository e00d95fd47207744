// Node of this process: a machine, as NCCL tells machines apart, or as the settings name it.
#pragma once

#include <cstdint>

#include "policy/settings.h"

namespace terse {

// Hash that all processes of a node share: of its name in the settings (TERSE_NODE, NCCL_HOSTID),
// or else of the machine's name and boot id.
uint64_t host_hash(const Settings& settings);

}  // namespace terse
