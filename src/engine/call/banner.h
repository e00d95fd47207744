// First line of a job (base/log.h, note): rank 0 of the first communicator whose ranks have agreed
// logs what is compressed. If nothing is, a second line comes from the first communicator that
// compresses and has the same process as rank 0.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// Logs the line if it is due, and nothing if the settings compress nothing. Cheap; never throws.
void announce(Communicator& communicator) noexcept;

}  // namespace terse
