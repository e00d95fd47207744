// How AllGathers of differences go (plan/delta.h): the ranks compare what they hold of each other's
// shards, and all come to the same answer.
#pragma once

#include <span>
#include <vector>

#include "engine/run/job.h"

namespace terse {

// Sets the jobs' `delta` and `shadow`: in full where any rank holds something else than the others,
// or nothing; as differences; or not at all, where no rank has anything new. A job whose
// `delta.gathers` stays kAsUsual is NCCL's: it is recorded in a graph, which cannot wait for an
// answer, or its kind is given up.
//
// Waits for the jobs' streams, and for all ranks. Returns the jobs that are NCCL's because a rank
// lacks the little memory that comparing takes. Throws Error.
std::vector<const Job*> decide_deltas(std::span<Job* const> jobs);

// Of calls that are NCCL's after all, on all ranks: what these hold is not what was decided on, nor
// has anything gone so.
void take_back_deltas(const Jobs& jobs);

}  // namespace terse
