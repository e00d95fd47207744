// Windows of a communicator's ranks: made and opened by all, and tested, or had by none.
#pragma once

#include "engine/run/job.h"

namespace terse {

// Makes the windows for jobs that could be fused, if all ranks of their communicators have the
// memory and reach each other's, which blocks the caller; else the jobs are done in steps, on all
// ranks alike, and windows of that size are not asked for again. Throws Error.
void open_windows(const Jobs& jobs);

}  // namespace terse
