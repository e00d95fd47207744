#include "engine/group.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/agree.h"
#include "engine/call_memory.h"
#include "engine/native.h"
#include "engine/prepare.h"
#include "engine/trace.h"
#include "engine/work.h"

namespace terse {
namespace {

// Per thread, as NCCL's groups.
struct Group {
  int depth = 0;
  std::vector<Job> pending;
  std::exception_ptr error;  // the first; sticky until the end
};
thread_local Group t_group;

void run_native(const Jobs& jobs) {
  if (jobs.empty()) return;
  const NcclLibrary& library = jobs.front()->communicator->library;
  ncclResult_t first = library.nccl.GroupStart();
  try {
    for (const Job* job : jobs) {
      const ncclResult_t result = call_native(*job->communicator, job->request);
      if (first == ncclSuccess) first = result;
    }
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  for (const Job* job : jobs)
    job->communicator->settle(first == ncclSuccess ? end : first, "native NCCL");
}

// Whether a message stays native and yet travels with compressed ones. All messages of a
// communicator are under way at once in a group, and those of two ranks keep their order.
bool joins_batch(const Job& job, std::span<const Job> jobs) {
  return is_message(job) && std::ranges::any_of(jobs, [&](const Job& other) {
           return is_message(other) && !other.native && other.communicator == job.communicator;
         });
}

// The ranks tell each other what the jobs wait for, which then are decided on.
void decide(std::vector<Job>& jobs) {
  std::vector<Waiting> waiting;
  for (const Job& job : jobs)
    if (job.waits) waiting.push_back({job.communicator, &job.request});
  if (waiting.empty()) return;
  introduce(waiting);
  for (Job& job : jobs) {
    if (!job.waits) continue;
    Communicator& c = *job.communicator;
    const Route way = route(c, job.request);
    if (way.bypass) count_bypass(c, job.request, *way.bypass);
    job = {&c, job.request, way.scheme, way.rule, way.reduction, way.bypass.has_value()};
  }
  std::erase_if(jobs, [](const Job& job) { return !job.native && job.request.count == 0; });
}

void run(std::span<const Job> jobs) {
  CallMemory memory;
  const auto goes_alone = [&](const Job& job) { return job.native && !joins_batch(job, jobs); };
  Jobs native(memory.get()), together(memory.get());
  together.reserve(jobs.size());
  for (const Job& job : jobs) (goes_alone(job) ? native : together).push_back(&job);
  run_native(native);
  std::pmr::vector<Agreement> agreements(memory.get());
  agreements.reserve(together.size());
  for (const Job* job : together) {
    if (job->native) continue;
    const std::optional<int> peer =
        is_message(*job) ? std::optional<int>(job->request.root) : std::nullopt;
    agreements.push_back({job->communicator, &job->scheme, job->request.stream, peer});
  }
  agree(agreements);
  const Jobs fallen_back = prepare(together);
  for (const Job* job : fallen_back) {
    trace(*job->communicator, job->request, TERSE_BYPASS_FALLBACK);
    count_bypass(*job->communicator, job->request, TERSE_BYPASS_FALLBACK);
  }
  run_native(fallen_back);
  execute(together);
}

// Now, or at the end of the thread's group.
void add(const Job& job) {
  if (t_group.depth > 0)
    t_group.pending.push_back(job);
  else
    run({&job, 1});
}

void compress(Communicator& c, const Request& request, const Route& way) {
  if (request.count != 0) add({&c, request, way.scheme, way.rule, way.reduction, false});
}

// Checks the call; an error inside a group is its last word too.
template <class Body>
void submitting(const Request& request, const Body& body) {
  try {
    validate(request);
    body();
  } catch (Error& e) {
    if (const Communicator* c = find_communicator(request.comm)) c->sign(e);
    if (t_group.depth > 0 && t_group.error == nullptr) t_group.error = std::current_exception();
    throw;
  }
}

}  // namespace

void submit(const Request& request, const Scheme& scheme) {
  submitting(request, [&] {
    Communicator& c = communicator(request.comm);
    validate(request, c.rank, c.ranks);
    const Route way = route(c, request, scheme);
    if (!way.bypass) return compress(c, request, way);
    count_bypass(c, request, *way.bypass);
    add({&c, request, way.scheme, way.rule, way.reduction, true});
  });
}

void submit(Communicator& c, const Request& request, const Route& way) {
  submitting(request, [&] {
    validate(request, c.rank, c.ranks);
    if (way.bypass)
      add({&c, request, way.scheme, way.rule, way.reduction, true});
    else
      compress(c, request, way);
  });
}

void defer(Communicator& c, const Request& request) {
  submitting(request, [&] {
    validate(request, c.rank, c.ranks);
    t_group.pending.push_back({.communicator = &c, .request = request, .waits = true});
  });
}

void group_start() { ++t_group.depth; }

int group_depth() { return t_group.depth; }

void group_abandon() { t_group = {}; }

bool group_reduces_by(ncclComm_t comm, ncclRedOp_t op) {
  return std::ranges::any_of(t_group.pending, [&](const Job& job) {
    return job.request.comm == comm && job.request.op == op;
  });
}

void group_settle(ncclResult_t result) {
  for (const Job& job : t_group.pending) job.communicator->settle(result, "ncclGroupEnd");
}

void group_hand_over() {
  for (const Job& job : t_group.pending)
    check(job.communicator->library, call_native(*job.communicator, job.request), "native NCCL");
  t_group.pending.clear();
}

void group_end() {
  if (t_group.depth == 0) fail(ncclInvalidUsage, "there is no group to end");
  if (--t_group.depth > 0) return;
  Group group = std::exchange(t_group, {});
  if (group.error != nullptr) std::rethrow_exception(group.error);
  decide(group.pending);
  run(group.pending);
  group.pending.clear();
  t_group.pending = std::move(group.pending);  // its memory serves the next group
}

}  // namespace terse
