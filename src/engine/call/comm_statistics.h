// Counters of a communicator, for callers of any version (terseCommGetStats).
#pragma once

#include "nccl/table.h"
#include "terse/terse.h"

namespace terse {

// Fills as much of *stats as stats->size says there is; zeros if nothing was counted. Throws
// Error(ncclInvalidArgument) for null, and for a size that holds nothing.
void get_statistics(ncclComm_t comm, terseStats_t* stats);

}  // namespace terse
