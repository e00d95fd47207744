#include "engine/call/jobs.h"

#include <utility>

#include "base/error.h"
#include "engine/call/banner.h"
#include "engine/call/call_memory.h"
#include "engine/call/group_schedule.h"
#include "engine/call/trace.h"
#include "engine/call/warnings.h"
#include "engine/comm/shape.h"
#include "engine/peers/agree.h"
#include "engine/peers/deltas.h"
#include "engine/peers/prepare.h"
#include "engine/peers/windows.h"
#include "engine/run/call_native.h"
#include "engine/run/executor.h"
#include "plan/link.h"

namespace terse {
namespace {

void run_native(const Jobs& jobs) {
  if (jobs.empty()) return;
  const NcclLibrary& library = jobs.front()->communicator->library;
  ncclResult_t first = library.nccl.GroupStart();
  try {
    for (const Job* job : jobs) {
      const ncclResult_t result =
          with_context(*job, [&] { return call_native(*job->communicator, job->request); });
      if (first == ncclSuccess) first = result;
    }
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  if (first == ncclSuccess) first = end;
  for (const Job* job : jobs) settle(*job, first, "native NCCL");
}

// Returns jobs on the communicators of some calls.
template <class Calls>
auto on_one_of(const Calls& calls) {
  return [&calls](const Job& job) {
    return std::ranges::any_of(
        calls, [&](const auto& call) { return call.communicator == job.communicator; });
  };
}

void decide(Job& job) {
  Communicator& c = *job.communicator;
  const std::optional<Scheme>& named = std::get<Undecided>(job.route.way).named;
  job.route = named ? route(c, job.request, *named) : route(c, job.request);
  if (const auto reason = job.route.bypass()) count_bypass(c, job.request, *reason);
}

// Returns true if no other job is on its communicator.
bool is_alone(std::span<const Job> jobs, const Job& job) {
  return std::ranges::none_of(jobs, [&](const Job& other) {
    return &other != &job && other.communicator == job.communicator;
  });
}

// Decides each job. All ranks of a communicator see a refusal, now that they have met; of a message
// two of them.
void decide_each(std::span<Job> jobs) {
  std::optional<Error> first;
  std::vector<ncclComm_t> refused;
  for (Job& job : jobs) try {
      if (job.is_undecided()) decide(job);
    } catch (const Error& e) {
      if (!first) first = e;
      if (!is_message(job) || is_alone(jobs, job)) refused.push_back(job.communicator->comm);
    }
  if (!first) return;
  poison(jobs, *first, [&](const Job& job) { return is_one_of(*job.communicator, refused); });
  throw *first;
}

// Returns true if a job would send more over a node's link than NCCL does. A scheme that names the
// algorithm, and auto, have decided themselves.
bool sends_more_than_nccl(const Job* job) {
  if (job->is_native() || is_message(*job)) return false;
  if (job->communicator->topology().nodes() < 2) return false;  // before any plan is looked up
  const PlanPointer plan = plan_of_collective(*job);
  return !plan->asked_for && plan::sends_more_than_native(plan->link);
}

// Returns true if a job is predicted to be slower than NCCL's call. A scheme that names the
// algorithm, auto, and a configuration that asks for compression have decided themselves. What
// differences take nobody predicts.
bool is_slower_than_nccl(const Job* job) {
  if (job->is_native() || is_message(*job) || job->route.choice) return false;
  if (job->scheme().delta || job->request.config.must_compress ||
      job->communicator->profile() == nullptr)
    return false;
  const PlanPointer plan = plan_of_collective(*job);
  return plan->is_slow && !plan->asked_for;
}

// Returns true if the exact elements and the codes are as many bytes as NCCL sends, which auto does
// not know.
bool keeps_too_much(const Job* job) {
  if (job->is_native() || is_message(*job)) return false;
  const Request& r = job->request;
  const Communicator& c = *job->communicator;
  const size_t exact = c.routing().plans().exact_elements(r.collective, r.count);
  if (exact == 0) return false;
  if (job->named().algorithm != plan::Algo{} && plan_of_collective(*job)->asked_for) return false;
  const size_t element = datatype_size(r.datatype), raw = message_bytes(r, c.ranks);
  return exact * element + packing_of(job->scheme().spec).bytes(raw / element) >= raw;
}

template <class Condition>
Jobs take_if(Jobs& jobs, const Condition& condition) {
  Jobs taken(jobs.get_allocator());
  std::erase_if(jobs, [&](Job* job) {
    if (!condition(job)) return false;
    taken.push_back(job);
    return true;
  });
  return taken;
}

// Refuses jobs that must compress and would not, before anything is enqueued: no rank calls on the
// communicator of such a job, and those of the others are poisoned.
void require_none_native(const Jobs& jobs, std::span<const Job> all) {
  for (const Job* job : jobs) {
    if (!job->request.config.must_compress) continue;
    const Communicator& c = *job->communicator;
    try {
      if (keeps_too_much(job)) require_not_native(c, job->request, TERSE_BYPASS_EXACT);
      if (sends_more_than_nccl(job)) require_not_native(c, job->request, TERSE_BYPASS_LINK);
    } catch (const std::exception& cause) {
      poison(all, cause, [&](const Job& other) { return other.communicator == &c; });
      throw;
    }
  }
}

void stay_native(const Jobs& jobs, int reason) {
  for (const Job* job : jobs) require_not_native(*job->communicator, job->request, reason);
  for (const Job* job : jobs) {
    trace(*job->communicator, job->request, reason);
    count_bypass(*job->communicator, job->request, reason);
  }
  run_native(jobs);
}

// Decides how AllGathers of differences go; some become NCCL's.
void decide_on_deltas(Jobs& compressed) {
  std::vector<Job*> asking;
  for (Job* job : compressed)
    if (!job->is_native() && job->scheme().delta) asking.push_back(job);
  if (asking.empty()) return;
  const std::vector<const Job*> unknown = decide_deltas(asking);
  stay_native(
      take_if(compressed,
              [&](const Job* job) { return std::ranges::find(unknown, job) != unknown.end(); }),
      TERSE_BYPASS_FALLBACK);
  stay_native(take_if(compressed,
                      [](const Job* job) {
                        return !job->is_native() && job->scheme().delta &&
                               job->compressed().delta.gathers == plan::Gathers::kAsUsual;
                      }),
              TERSE_BYPASS_DELTA);
}

// Requires that all communicators are usable, before any call is made.
void require_usable(std::span<const Job> jobs) {
  for (const Job& job : jobs) try {
      job.communicator->health().require_usable();
    } catch (const std::exception& cause) {
      poison(jobs, cause, [](const Job&) { return false; });
      throw;
    }
}

// Agrees for the jobs; if that fails, poisons the other jobs' communicators.
void agree_for(std::span<const Job> jobs, std::span<const Agreement> agreements) {
  try {
    agree(agreements);
  } catch (const std::exception& cause) {
    poison(jobs, cause, on_one_of(agreements));  // poisoned by agree()
    throw;
  }
}

}  // namespace

std::optional<int> reason_to_stay_native(const Job& job) {
  if (keeps_too_much(&job)) return TERSE_BYPASS_EXACT;
  if (sends_more_than_nccl(&job)) return TERSE_BYPASS_LINK;
  return is_slower_than_nccl(&job) ? std::optional<int>(TERSE_BYPASS_SLOW) : std::nullopt;
}

void decide(std::vector<Job>& jobs) {
  std::vector<PendingCall> undecided;
  for (const Job& job : jobs)
    if (job.is_undecided()) undecided.push_back({job.communicator, &job.request});
  if (undecided.empty()) return;
  try {
    discover_topology(undecided);
  } catch (const std::exception& cause) {
    poison(jobs, cause, on_one_of(undecided));  // poisoned by discover_topology()
    throw;
  }
  decide_each(jobs);
  std::erase_if(jobs, [](const Job& job) { return !job.is_native() && job.request.count == 0; });
}

void run(std::span<Job> jobs) {
  CallMemory memory;
  GroupSchedule s = schedule(jobs, memory.get());
  std::pmr::vector<Agreement> agreements(memory.get());
  agreements.reserve(jobs.size());
  for (const Job& job : jobs) {
    if (job.is_native() && !job.route.choice)
      continue;  // ranks agree on an auto that chose native, too
    const std::optional<int> peer =
        is_message(job) ? std::optional<int>(job.request.root) : std::nullopt;
    const bool alone = !peer || is_alone(jobs, job);
    agreements.push_back({job.communicator, &job.named(), job.request.stream, peer, alone});
  }
  require_usable(jobs);
  agree_for(jobs, agreements);
  require_none_native(s.compressed, jobs);
  try {
    run_native(s.native);
    stay_native(take_if(s.compressed, keeps_too_much), TERSE_BYPASS_EXACT);
    stay_native(take_if(s.compressed, sends_more_than_nccl), TERSE_BYPASS_LINK);
    stay_native(take_if(s.compressed, is_slower_than_nccl), TERSE_BYPASS_SLOW);
    decide_on_deltas(s.compressed);
    open_windows(s.compressed);
    const Jobs unprepared = prepare(s.compressed);
    take_back_deltas(unprepared);
    stay_native(unprepared, TERSE_BYPASS_FALLBACK);
    for (const Job* job : s.compressed) warn_of_dangers(*job);
    execute(s.compressed);
  } catch (const std::exception& cause) {
    // NCCL has the native calls, or has reported what became of them.
    poison(jobs, cause, [&](const Job& job) { return s.is_native(job); });
    throw;
  }
}

}  // namespace terse
