// Carries out plans: binds them to the callers' buffers, lays their steps on the communicators'
// lanes, and merges the communicate steps of different communicators into one NCCL group.
#pragma once

#include <vector>

#include "engine/route.h"

namespace terse {

// A call that is to be compressed.
struct Job {
  Communicator* communicator;
  Request request;
  Scheme scheme;
  uint32_t rule;  // of the policy
  Reduction reduction;
  bool native = false;  // a message that travels as it is; to be executed only with others
};

// Enqueues the jobs, in order on each communicator; its messages (Send and Recv) are one batch and
// come last. Where a job's stream is null and that means
// "done on return", waits for it. Throws Error; then some may have been enqueued.
void execute(const std::vector<Job>& jobs);

}  // namespace terse
