// The file of levels (TERSE_LEVELS) that a run leaves to the next one. Of a job's processes that
// one writes it whose first communicator has it as rank 0.
#pragma once

#include <span>

#include "policy/settings.h"

namespace terse {

// From a communicator's creation on, on which this process has rank `rank`.
void levels_begin(int rank) noexcept;

// Puts levels that were fitted in place of those of the same calls. Never throws: a file that
// cannot be written is a warning in the log.
void save_levels(const Settings& settings, std::span<const Levels> levels) noexcept;

}  // namespace terse
