// Whether terse is at work, in one line (base/log.h, note): of rank 0 of the first communicator
// whose ranks have agreed; and where all stays native there, again of the first one on which
// something is compressed and which has that process as its rank 0.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// Nothing the next times, nor where the settings compress nothing. Cheap, and never throws.
void announce(Communicator& communicator) noexcept;

}  // namespace terse
