// Calls that stay native for a while (tersePreloadPause): for what must be exact, as a checkpoint.
#pragma once

#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

// To begin with, the ranks meet. Pauses within others end none but their own. Throws Error, and
// then nothing has changed on any rank.
void pause(ncclComm_t comm, bool paused, const Settings& settings);

}  // namespace terse
