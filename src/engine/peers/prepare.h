// The safety net: what compressed calls need is made ready before anything is sent, and where a
// rank cannot, all of them call NCCL instead.
#pragma once

#include "engine/run/job.h"

namespace terse {

// Makes queues and scratch memory for the jobs. Where a communicator needs more than it ever did,
// its ranks tell each other whether they have it, which blocks the caller; where one has not, the
// communicator's jobs are taken out of `jobs` on every rank alike, and returned. They try again at
// later calls, ever more seldom. Messages, and calls that are recorded in a graph, are left as they
// are. Throws Error.
Jobs prepare(Jobs& jobs);

}  // namespace terse
