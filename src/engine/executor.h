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
};

// From the communicator's cache.
const plan::Plan& plan_of(const Job& job);

// Enqueues the jobs, in order on each communicator. Where a job's stream is null and that means
// "done on return", waits for it. Throws Error; then some may have been enqueued.
void execute(const std::vector<Job>& jobs);

}  // namespace terse
