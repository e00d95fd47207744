// Calls to be made together: what becomes of each, and what of the others where one fails.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "engine/call/route.h"
#include "engine/run/work.h"

namespace terse {

Job job_of(Communicator& communicator, const Request& request, const Route& way);
// That is decided on by the policy, or by the scheme if that is auto.
Job waiting(Communicator& communicator, const Request& request, std::optional<Scheme> automatic);

// The ranks tell each other what the jobs wait for, which then are decided on. Where they do not
// agree the others go down with them, but not those that fail alike on all ranks.
void decide(std::vector<Job>& jobs);
// Throws Error; what is not known to be the same on all ranks is broken off then.
void run(std::span<Job> jobs);

// Runs a part of a job's call, whose errors name both.
template <class Part>
auto with_context(const Job& job, const Part& part) {
  return job.communicator->with_context([&] { return plan::name(job.request.collective); }, part);
}

// Communicator::settle() for a job's call.
inline void settle(const Job& job, ncclResult_t result, const char* call) {
  with_context(job, [&] { job.communicator->settle(result, call); });
}

inline bool is_one_of(const Communicator& c, std::span<const ncclComm_t> comms) {
  return std::ranges::find(comms, c.comm) != comms.end();
}

// Nobody knows how far they came, or other ranks with theirs: but for those of which `spared` is
// true.
template <class Condition>
void poison(std::span<const Job> jobs, const std::exception& cause,
            const Condition& spared) noexcept {
  for (const Job& job : jobs)
    if (!spared(job)) job.communicator->poison(job.request.stream, cause);
}

}  // namespace terse
