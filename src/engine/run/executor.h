// Executor of plans: binds them to the callers' buffers, lays their steps on the communicators'
// lanes, and merges the communicate steps of different communicators into one NCCL group. Two
// chunks of a two-shot AllReduce, time to the right:
//
//    encode       [encode 0][encode 1]
//    communicate            [exchange 0][exchange 1 + share 0][share 1]
//    decode                             [reduce 0 ][reduce 1 ][decode 0][decode 1]
#pragma once

#include "engine/run/job.h"

namespace terse {

// Enqueues the jobs, in order on each communicator; its messages (Send and Recv) are one batch and
// come last. Waits for a job with a null stream that means "done on return". Throws Error; then
// some may have been enqueued.
void execute(const Jobs& jobs);

}  // namespace terse
