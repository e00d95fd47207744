// Whether terse is at work, in one line (base/log.h, note): of rank 0 of the first communicator
// whose ranks have agreed; and where all stays native there, again of the first one on which
// something is compressed and which has that process as its rank 0.
#pragma once

#include "engine/comm/communicator.h"
#include "engine/run/job.h"

namespace terse {

// Nothing the next times, nor where the settings compress nothing. Cheap, and never throws.
void announce(Communicator& communicator) noexcept;

// Warns once in a process, where it has rank 0 of the job's communicator, of an AllGather whose
// results differ between ranks (own=exact).
void warn_of_exact_shards(const Job& job) noexcept;

}  // namespace terse
