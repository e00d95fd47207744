// Decision of the ranks on AllGathers of differences (plan/delta.h): they compare what they hold of
// each other's shards.
#pragma once

#include <span>
#include <vector>

#include "engine/run/job.h"

namespace terse {

// Sets the jobs' `delta` and `shadow`: in full if any rank holds something else than the others, or
// nothing; as differences; or as nothing, if no rank has anything new. A job whose `delta.gathers`
// stays kAsUsual is NCCL's: it is recorded in a graph, which cannot wait for a decision, or its
// kind gave up.
//
// Waits for the jobs' streams, and for all ranks. Returns the jobs that are NCCL's because a rank
// lacks the little memory to compare. Throws Error.
std::vector<const Job*> decide_deltas(std::span<Job* const> jobs);

// Takes the decision on jobs back that became NCCL's on all ranks.
void take_back_deltas(const Jobs& jobs);

}  // namespace terse
