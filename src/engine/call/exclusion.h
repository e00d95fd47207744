// Elements of a message that stay exact (terseCommExclude): the ranks agree on them, and the plans
// of such messages carry them (plan/native_extras.h).
#pragma once

#include <cstddef>

#include "nccl/table.h"
#include "policy/settings.h"
#include "terse/terse.h"

namespace terse {

// terseCommExclude: throws Error, and then nothing has changed on any rank. Where one rank's ranges
// cannot be, the call is an error on all of them.
void exclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges, size_t count,
             const Settings& settings);

}  // namespace terse
