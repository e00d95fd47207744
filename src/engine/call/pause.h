// Pause of compression (tersePreloadPause), for what must be exact, as a checkpoint.
#pragma once

#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

// Begins or ends a pause. The ranks meet to begin one. Pauses nest. If it throws Error, nothing has
// changed on any rank.
void pause(ncclComm_t comm, bool paused, const Settings& settings);

}  // namespace terse
