// Calls to be made together: the decision on each, and on the others if one fails.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "engine/call/route.h"
#include "engine/run/work.h"

namespace terse {

// TERSE_BYPASS reason why a job with a scheme is not worth compressing; empty: it is.
std::optional<int> reason_to_stay_native(const Job& job);

// Exchanges what the jobs wait for between the ranks, and decides on them. Poisons the other jobs'
// communicators if ranks do not agree, but not those that fail alike on all ranks.
void decide(std::vector<Job>& jobs);
// Makes the calls. Throws Error, after poisoning all communicators that ranks may not see alike.
void run(std::span<Job> jobs);

// Runs a part of a job's call, whose errors name both.
template <class Part>
auto with_context(const Job& job, const Part& part) {
  return job.communicator->with_context([&] { return plan::name(job.request.collective); }, part);
}

// Calls Communicator::settle() for a job's call.
inline void settle(const Job& job, ncclResult_t result, const char* call) {
  with_context(job, [&] { job.communicator->settle(result, call); });
}

inline bool is_one_of(const Communicator& c, std::span<const ncclComm_t> comms) {
  return std::ranges::find(comms, c.comm) != comms.end();
}

// Poisons the jobs' communicators, unless spared(job): nobody knows how far they came, or other
// ranks with theirs.
template <class Condition>
void poison(std::span<const Job> jobs, const std::exception& cause,
            const Condition& spared) noexcept {
  for (const Job& job : jobs)
    if (!spared(job)) job.communicator->poison(job.request.stream, cause);
}

}  // namespace terse
