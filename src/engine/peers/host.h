// Which machine this process runs on, as NCCL tells machines apart.
#pragma once

#include <cstdint>

namespace terse {

// The same for all processes of a machine: of NCCL_HOSTID, or else of its name and boot id.
uint64_t host_hash();

}  // namespace terse
