// Elements of a message that stay exact (terseCommExclude): the ranks agree on them, and plans
// carry them (plan/native_extras.h).
#pragma once

#include <cstddef>

#include "nccl/table.h"
#include "policy/settings.h"
#include "terse/terse.h"

namespace terse {

// Implements terseCommExclude. If it throws Error, nothing has changed on any rank; invalid ranges
// of one rank are an error on all.
void exclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges, size_t count,
             const Settings& settings);

}  // namespace terse
