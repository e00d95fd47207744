// Which node this process runs on: a machine, as NCCL tells machines apart, or what is said to be
// one.
#pragma once

#include <cstdint>

#include "policy/settings.h"

namespace terse {

// The same for all processes of a node: of its name as the settings give it (TERSE_NODE,
// NCCL_HOSTID), or else of the machine's name and boot id.
uint64_t host_hash(const Settings& settings);

}  // namespace terse
