#include "engine/call/group.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/call/call_memory.h"
#include "engine/call/joint.h"
#include "engine/call/trace.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "engine/peers/deltas.h"
#include "engine/peers/prepare.h"
#include "engine/run/native.h"
#include "engine/run/work.h"

namespace terse {
namespace {

// Per thread, as NCCL's groups.
struct Group {
  int depth = 0;
  std::vector<Job> pending;
  std::vector<CommunicatorPointer> held;                 // theirs
  std::vector<std::pair<Communicator*, Stream>> beside;  // calls that NCCL has; held, too
  Joint joint;                                           // once its streams have met
  std::exception_ptr error;                              // the first; sticky until the end
  std::vector<ncclComm_t> refused;                       // of calls that were, as on all ranks
  bool is_void = false;                                  // NCCL would drop it, too
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

// Whether a call that stays native goes before all that is compressed. A message that stays native
// does not: its peer may have it beside a compressed one, whatever this rank's group has, and so it
// has one place on every rank, after the collectives, among the messages, where all are under way
// at once and those between two ranks keep their order.
bool goes_first(const Job& job, bool any_compressed) {
  return job.native && !(any_compressed && is_message(job));
}

Job job_of(Communicator& c, const Request& request, const Route& way) {
  return {.communicator = &c,
          .request = request,
          .scheme = way.scheme,
          .rule = way.rule,
          .reduction = way.reduction,
          .native = way.bypass.has_value(),
          .chosen_by = way.chosen_by,
          .predicted = way.predicted,
          .delta = {.own_exact = way.scheme.delta.own_exact}};
}

// Nobody knows how far they came, or other ranks with theirs: but for those of which `spared` is
// true.
template <class Condition>
void break_off(std::span<const Job> jobs, const std::exception& cause,
               const Condition& spared) noexcept {
  for (const Job& job : jobs)
    if (!spared(job)) job.communicator->break_off(job.request.stream, cause);
}

void break_off(std::span<const Job> jobs, const std::exception& cause) noexcept {
  break_off(jobs, cause, [](const Job&) { return false; });
}

bool is_one_of(const Communicator& c, std::span<const ncclComm_t> comms) {
  return std::ranges::find(comms, c.comm) != comms.end();
}

Job decided(const Job& job) {
  Communicator& c = *job.communicator;
  const Route way = job.chosen_by ? route(c, job.request, *job.chosen_by) : route(c, job.request);
  if (way.bypass) count_bypass(c, job.request, *way.bypass);
  return job_of(c, job.request, way);
}

// What a job is refused for all ranks of its communicator see, now that they have met.
void decide_each(std::span<Job> jobs) {
  std::optional<Error> first;
  std::vector<ncclComm_t> refused;
  for (Job& job : jobs) try {
      if (job.waits) job = decided(job);
    } catch (const Error& e) {
      if (!first) first = e;
      refused.push_back(job.communicator->comm);
    }
  if (!first) return;
  break_off(jobs, *first, [&](const Job& job) { return is_one_of(*job.communicator, refused); });
  throw *first;
}

// The ranks tell each other what the jobs wait for, which then are decided on. Where they do not
// agree the others go down with them, but not those that fail alike on all ranks.
void decide(std::vector<Job>& jobs) {
  std::vector<Waiting> waiting;
  for (const Job& job : jobs)
    if (job.waits) waiting.push_back({job.communicator, &job.request});
  if (waiting.empty()) return;
  try {
    introduce(waiting);
  } catch (const std::exception& cause) {
    break_off(jobs, cause, [&](const Job& job) {  // introduce() has seen to those
      return std::ranges::find(waiting, job.communicator, &Waiting::communicator) != waiting.end();
    });
    throw;
  }
  decide_each(jobs);
  std::erase_if(jobs, [](const Job& job) { return !job.native && job.request.count == 0; });
}

// Whether it would send more over the link of a node than NCCL does. Where the scheme names an
// algorithm, its user has decided.
bool sends_more_than_nccl(const Job* job) {
  if (job->native || is_message(*job) || job->scheme.algorithm != plan::Algo{}) return false;
  if (job->communicator->topology().nodes() < 2) return false;  // and no plan is looked up
  const plan::Link link = plan_of_collective(*job)->link;
  return link.compressed.off_node > link.native.off_node;
}

template <class Condition>
Jobs take_if(Jobs& jobs, const Condition& condition) {
  Jobs taken(jobs.get_allocator());
  std::erase_if(jobs, [&](const Job* job) {
    if (!condition(job)) return false;
    taken.push_back(job);
    return true;
  });
  return taken;
}

void stay_native(const Jobs& jobs, int reason) {
  for (const Job* job : jobs) {
    trace(*job->communicator, job->request, reason);
    count_bypass(*job->communicator, job->request, reason);
  }
  run_native(jobs);
}

// How AllGathers of differences go; some are NCCL's.
void decide_on_deltas(std::span<Job> jobs, Jobs& together) {
  std::vector<Job*> asking;
  for (const Job* job : together)
    if (!job->native && job->scheme.delta) asking.push_back(&jobs[job - jobs.data()]);
  if (asking.empty()) return;
  const std::vector<const Job*> unknown = decide_deltas(asking);
  stay_native(
      take_if(together,
              [&](const Job* job) { return std::ranges::find(unknown, job) != unknown.end(); }),
      TERSE_BYPASS_FALLBACK);
  stay_native(take_if(together,
                      [](const Job* job) {
                        return job->scheme.delta && job->delta.gathers == plan::Gathers::kAsUsual;
                      }),
              TERSE_BYPASS_DELTA);
}

// Where one is not, the others' calls are not made either.
void require_usable(std::span<const Job> jobs) {
  for (const Job& job : jobs) try {
      job.communicator->require_usable();
    } catch (const std::exception& cause) {
      break_off(jobs, cause);
      throw;
    }
}

// Where the jobs' agreements fail the other jobs do.
void agree_for(std::span<const Job> jobs, std::span<const Agreement> agreements) {
  try {
    agree(agreements);
  } catch (const std::exception& cause) {
    break_off(jobs, cause, [&](const Job& job) {  // agree() has seen to those
      return std::ranges::find(agreements, job.communicator, &Agreement::communicator) !=
             agreements.end();
    });
    throw;
  }
}

bool has_several_streams() {
  const Stream first = t_group.pending.empty() ? nullptr : t_group.pending.front().request.stream;
  return std::ranges::any_of(t_group.pending,
                             [&](const Job& job) { return job.request.stream != first; }) ||
         std::ranges::any_of(t_group.beside,
                             [&](const auto& call) { return call.second != first; });
}

void run(std::span<Job> jobs) {
  CallMemory memory;
  const bool any_compressed = !std::ranges::all_of(jobs, &Job::native);
  Jobs native(memory.get()), together(memory.get());
  together.reserve(jobs.size());
  for (const Job& job : jobs) (goes_first(job, any_compressed) ? native : together).push_back(&job);
  std::pmr::vector<Agreement> agreements(memory.get());
  agreements.reserve(jobs.size());
  for (const Job& job : jobs) {
    if (job.native && !job.chosen_by) continue;  // on the auto that chose native all agree, too
    const std::optional<int> peer =
        is_message(job) ? std::optional<int>(job.request.root) : std::nullopt;
    agreements.push_back({job.communicator, &job.named(), job.request.stream, peer});
  }
  require_usable(jobs);
  agree_for(jobs, agreements);
  try {
    run_native(native);
    stay_native(take_if(together, sends_more_than_nccl), TERSE_BYPASS_LINK);
    decide_on_deltas(jobs, together);
    const Jobs unprepared = prepare(together);
    forget_deltas(unprepared);
    stay_native(unprepared, TERSE_BYPASS_FALLBACK);
    execute(together);
  } catch (const std::exception& cause) {
    // What goes first NCCL has, or has said itself what became of it.
    break_off(jobs, cause, [&](const Job& job) { return goes_first(job, any_compressed); });
    throw;
  }
}

void add_to_group(const Job& job) {
  t_group.held.push_back(job.communicator->weak_from_this().lock());
  t_group.pending.push_back(job);
}

// Now, or at the end of the thread's group.
void add(Job job) {
  if (t_group.depth > 0)
    add_to_group(job);
  else
    run({&job, 1});
}

// That is decided on by the policy, or by the scheme if that is auto.
Job waiting(Communicator& c, const Request& request, std::optional<Scheme> automatic) {
  return {.communicator = &c,
          .request = request,
          .scheme = {},
          .rule = kNoRule,
          .reduction = {},
          .waits = true,
          .chosen_by = std::move(automatic)};
}

void compress(Communicator& c, const Request& request, const Route& way) {
  if (request.count != 0) add(job_of(c, request, way));
}

// As NCCL checks its arguments. A group with a call that it would refuse it drops, and so do we.
template <class... Place>
void check_arguments(const Request& request, Place... place) {
  try {
    validate(request, place...);
  } catch (...) {
    if (t_group.depth > 0) t_group.is_void = true;
    throw;
  }
}

// Checks the call; an error inside a group is its last word too.
template <class Body>
void submitting(const Request& request, const Body& body) {
  const auto keep = [&] {
    if (t_group.depth > 0 && t_group.error == nullptr) t_group.error = std::current_exception();
    group_refuses(request.comm);
  };
  try {
    check_arguments(request);
    body();
  } catch (Error& e) {
    if (const auto c = find_communicator(request.comm)) c->sign(e);
    keep();
    throw;
  } catch (...) {
    keep();
    throw;
  }
}

}  // namespace

void submit(const Request& request, const Scheme* named, const Settings& settings) {
  submitting(request, [&] {
    if (named == nullptr) fail(ncclInvalidArgument, "the scheme is null");
    const Scheme& scheme = *named;
    const CommunicatorPointer held = communicator(request.comm, settings);
    Communicator& c = *held;
    check_arguments(request, c.rank, c.ranks);
    if (waits_for_ranks(c, scheme)) {
      if (group_depth() > 0) return add_to_group(waiting(c, request, scheme));
      const Waiting alone{&c, &request};
      introduce({&alone, 1});
    }
    const Route way = route(c, request, scheme);
    if (!way.bypass) return compress(c, request, way);
    count_bypass(c, request, *way.bypass);
    add(job_of(c, request, way));
  });
}

void submit(Communicator& c, const Request& request, const Route& way) {
  submitting(request, [&] {
    check_arguments(request, c.rank, c.ranks);
    if (way.bypass)
      add(job_of(c, request, way));
    else
      compress(c, request, way);
  });
}

void defer(Communicator& c, const Request& request) {
  submitting(request, [&] {
    check_arguments(request, c.rank, c.ranks);
    add_to_group(waiting(c, request, {}));
  });
}

void group_start() { ++t_group.depth; }

int group_depth() { return t_group.depth; }

void group_abandon() { t_group = {}; }

void group_abandon(const std::exception& cause, Lost lost) noexcept {
  const Group group = std::exchange(t_group, {});
  if (group.is_void) return;
  break_off(group.pending, cause,
            [&](const Job& job) { return is_one_of(*job.communicator, group.refused); });
  if (lost == Lost::kPending) return;
  for (const auto& [communicator, stream] : group.beside)
    if (!is_one_of(*communicator, group.refused)) communicator->break_off(stream, cause);
}

void group_refuses(ncclComm_t comm) {
  if (t_group.depth > 0) t_group.refused.push_back(comm);
}

void group_has(const CommunicatorPointer& communicator, Stream stream) {
  t_group.held.push_back(communicator);
  t_group.beside.emplace_back(communicator.get(), stream);
}

void group_meet() {
  if (!has_several_streams()) return;
  const auto compresses = [](const Communicator* c) {
    return std::ranges::any_of(
        t_group.pending, [&](const Job& job) { return job.communicator == c && !job.native; });
  };
  for (const Job& job : t_group.pending)
    if (compresses(job.communicator)) t_group.joint.add(*job.communicator, job.request.stream);
  for (const auto& [communicator, stream] : t_group.beside)
    if (compresses(communicator)) t_group.joint.add(*communicator, stream);
  t_group.joint.meet();
}

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
  t_group.held.clear();
}

void group_end() {
  if (t_group.depth == 0) fail(ncclInvalidUsage, "there is no group to end");
  if (--t_group.depth > 0) return;
  try {
    if (t_group.error != nullptr) std::rethrow_exception(t_group.error);
    if (t_group.joint.empty()) group_meet();
  } catch (const std::exception& cause) {
    group_abandon(cause, Lost::kPending);
    throw;
  }
  Group group = std::exchange(t_group, {});
  decide(group.pending);
  run(group.pending);
  group.joint.meet();
  group.pending.clear();
  group.held.clear();
  group.beside.clear();
  t_group.pending = std::move(group.pending);  // their memory serves the next group
  t_group.held = std::move(group.held);
  t_group.beside = std::move(group.beside);
}

}  // namespace terse
