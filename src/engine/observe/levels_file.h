// File of levels (TERSE_LEVELS), from one run to the next. The process with rank 0 of the reporting
// communicator writes it (observe/reporting_comm.h).
#pragma once

#include <span>

#include "policy/settings.h"

namespace terse {

// Writes levels that this run has fitted in place of those of the same calls, before all others for
// such calls; and levels that it has continued, unless the file has ones of more fits or calls.
// Never throws: a file that cannot be written is a warning in the log.
void save_levels(const Settings& settings, std::span<const Levels> fitted,
                 std::span<const Levels> continued) noexcept;

}  // namespace terse
