// First line of a job (base/log.h, note): rank 0 of the first communicator whose ranks have agreed
// logs what is compressed. If nothing is, a second line comes from the first communicator that
// compresses and has the same process as rank 0.
#pragma once

#include "engine/comm/communicator.h"
#include "engine/run/job.h"

namespace terse {

// Logs the line if it is due, and nothing if the settings compress nothing. Cheap; never throws.
void announce(Communicator& communicator) noexcept;

// Warns once in a process of an AllGather whose results differ between ranks (own=exact), on rank
// 0.
void warn_of_exact_shards(const Job& job) noexcept;

}  // namespace terse
