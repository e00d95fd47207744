// Which devices the ranks of this process take, among all ranks of its host.
#pragma once

#include <vector>

#include "device.h"
#include "environment.h"
#include "rendezvous.h"

namespace terse::perf {

// By rank of this process: LOCAL_RANK (without it, the process's place among those with the same
// host name) modulo the number of devices. Where a host has more ranks than devices, gives this
// process an NCCL_HOSTID of its own, without which NCCL refuses two ranks on one device; one that
// is set already stays. Before NCCL is initialised; collective. Throws std::runtime_error when the
// ranks of one process are more than the devices.
std::vector<int> place_ranks(const Device& device, const Launch& launch, int ranks_per_process,
                             Rendezvous* rendezvous);

}  // namespace terse::perf
