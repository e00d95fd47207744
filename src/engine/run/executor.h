// Carries out plans: binds them to the callers' buffers, lays their steps on the communicators'
// lanes, and merges the communicate steps of different communicators into one NCCL group.
#pragma once

#include <memory_resource>
#include <vector>

#include "engine/call/route.h"

namespace terse {

// A call that is to be compressed.
struct Job {
  Communicator* communicator;
  Request request;
  Scheme scheme;
  uint32_t rule;  // of the policy
  Reduction reduction;
  bool native = false;  // a message that travels as it is, beside what is compressed
  bool waits = false;   // for what the ranks tell each other, and only then is decided on (route.h)
};

// Theirs who asked for them, which live longer.
using Jobs = std::pmr::vector<const Job*>;

// Enqueues the jobs, in order on each communicator; its messages (Send and Recv) are one batch and
// come last. Where a job's stream is null and that means
// "done on return", waits for it. Throws Error; then some may have been enqueued.
void execute(const Jobs& jobs);

}  // namespace terse
