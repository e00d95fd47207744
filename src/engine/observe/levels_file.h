// The file of levels (TERSE_LEVELS) that a run leaves to the next one. Of a job's processes that
// one writes it which has rank 0 of the communicator that leads (observe/reporting_comm.h).
#pragma once

#include <span>

#include "policy/settings.h"

namespace terse {

// Puts levels that this run has fitted in place of those of the same calls, before all others that
// such calls would take; and levels that it has only gone on with unless others there are of more
// fits or calls. Never throws: a file that cannot be written is a warning in the log.
void save_levels(const Settings& settings, std::span<const Levels> fitted,
                 std::span<const Levels> continued) noexcept;

}  // namespace terse
