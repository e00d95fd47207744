// Carries out plans: binds them to the callers' buffers, lays their steps on the communicators'
// lanes, and merges the communicate steps of different communicators into one NCCL group.
#pragma once

#include "engine/run/job.h"

namespace terse {

// Enqueues the jobs, in order on each communicator; its messages (Send and Recv) are one batch and
// come last. Where a job's stream is null and that means
// "done on return", waits for it. Throws Error; then some may have been enqueued.
void execute(const Jobs& jobs);

}  // namespace terse
