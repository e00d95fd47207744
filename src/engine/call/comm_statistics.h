// What a communicator has counted, for callers of any age (terseCommGetStats).
#pragma once

#include "nccl/table.h"
#include "terse/terse.h"

namespace terse {

// Fills as much of *stats as stats->size says there is; zeros where nothing was ever counted.
// Throws Error(ncclInvalidArgument) for null, and a size that holds nothing.
void get_statistics(ncclComm_t comm, terseStats_t* stats);

}  // namespace terse
