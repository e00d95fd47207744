#include "engine/call/pending_group.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/thread_local.h"
#include "engine/call/jobs.h"
#include "engine/call/stream_join.h"
#include "engine/comm/directory.h"
#include "engine/run/call_native.h"

namespace terse {
namespace {

// Native call in NCCL's own group.
struct NativeCall {
  Communicator* communicator;
  Stream stream;
  bool waited;  // kept until the group's end, and lost if that fails
};

// Group of a thread, as NCCL's.
struct Group {
  int depth = 0;
  std::vector<Job> pending;
  std::vector<CommunicatorPointer> held;  // the communicators of pending jobs
  std::vector<NativeCall> natives;        // on held communicators, too
  StreamJoin join;                        // set once its streams have met
  std::exception_ptr error;               // the first error; sticky until the end
  std::vector<ncclComm_t> refused;        // communicators of calls refused on all ranks
  bool is_void = false;                   // NCCL would drop the group
};
Group& current() { return ThreadLocal<Group>::get(); }

bool has_several_streams() {
  const Stream first =
      current().pending.empty() ? nullptr : current().pending.front().request.stream;
  return std::ranges::any_of(current().pending,
                             [&](const Job& job) { return job.request.stream != first; }) ||
         std::ranges::any_of(current().natives,
                             [&](const NativeCall& call) { return call.stream != first; });
}

void add_to_group(const Job& job) {
  current().held.push_back(job.communicator->weak_from_this().lock());
  current().pending.push_back(job);
}

// Runs the job now, or keeps it for the end of the thread's group.
void add(Job job) {
  if (current().depth > 0)
    add_to_group(job);
  else
    run({&job, 1});
}

// Adds a call whose route is known; a compressed one of no elements is done.
void add(Communicator& c, const Request& request, const Route& route) {
  if (route.bypass() || request.count != 0) add({&c, request, route});
}

// Checks a call's arguments as NCCL does, which drops a group with an invalid call.
template <class Check>
auto check_as_nccl(const Check& check) {
  try {
    return check();
  } catch (const Error& e) {
    if (current().depth > 0 && e.result == ncclInvalidArgument) current().is_void = true;
    throw;
  }
}

template <class... Place>
void check_arguments(const Request& request, Place... place) {
  check_as_nccl([&] { validate(request, place...); });
}

// Communicator of a call, made if there are settings for it.
CommunicatorPointer known(ncclComm_t comm, const Settings* settings) noexcept {
  try {
    return settings != nullptr ? communicator(comm, *settings) : find_communicator(comm);
  } catch (...) {
    return nullptr;
  }
}

void keep_first_error() {
  if (current().depth > 0 && current().error == nullptr) current().error = std::current_exception();
}

// Poisons the communicator of a call that fails on this rank alone, as for want of memory.
void poison_for(ncclComm_t comm, const Request& request, const std::exception& cause,
                const Settings* settings) {
  if (const auto c = known(comm, settings)) c->poison(request.stream, cause);
  keep_first_error();
}

// Checks the call; an error in a group is also the group's.
template <class Body>
void submitting(ncclComm_t comm, const Request& request, const Settings* settings,
                const Body& body) {
  try {
    check_arguments(request);
    body();
  } catch (Error& e) {
    if (const auto c = find_communicator(comm)) c->add_context(e);
    keep_first_error();
    group_note_refusal(comm, request);
    throw;
  } catch (const std::exception& e) {
    poison_for(comm, request, e, settings);
    throw;
  }
}

}  // namespace

void submit(ncclComm_t comm, const Request& request, const Scheme* named,
            const Settings& settings) {
  submitting(comm, request, &settings, [&] {
    check_as_nccl([&] {
      if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
    });
    if (named == nullptr) fail(ncclInvalidArgument, "the scheme is null");
    const Scheme& scheme = *named;
    const CommunicatorPointer held = check_as_nccl([&] { return communicator(comm, settings); });
    Communicator& c = *held;
    check_arguments(request, c.rank, c.ranks);
    if (needs_topology(c, scheme)) {
      if (group_depth() > 0) return add_to_group({&c, request, {.way = Undecided{scheme}}});
      const PendingCall alone{&c, &request};
      discover_topology({&alone, 1});
    }
    const Route taken = route(c, request, scheme);
    if (const auto reason = taken.bypass()) count_bypass(c, request, *reason);
    add(c, request, taken);
  });
}

void submit(Communicator& c, const Request& request, const Route& route) {
  submitting(c.comm, request, nullptr, [&] {
    check_arguments(request, c.rank, c.ranks);
    add(c, request, route);
  });
}

void defer(Communicator& c, const Request& request) {
  submitting(c.comm, request, nullptr, [&] {
    check_arguments(request, c.rank, c.ranks);
    add_to_group({&c, request, {.way = Undecided{}}});
  });
}

void group_start() { ++current().depth; }

int group_depth() { return current().depth; }

void group_abandon() { current() = {}; }

void group_abandon(const std::exception& cause, FailureScope scope) noexcept {
  const Group group = std::exchange(current(), {});
  if (group.is_void) return;
  poison(group.pending, cause,
         [&](const Job& job) { return is_one_of(*job.communicator, group.refused); });
  for (const auto& [communicator, stream, waited] : group.natives)
    if ((waited || scope == FailureScope::kAll) && !is_one_of(*communicator, group.refused))
      communicator->poison(stream, cause);
}

void group_note_refusal(ncclComm_t comm, const Request& request) {
  if (current().depth > 0 && !plan::is_point_to_point(request.collective))
    current().refused.push_back(comm);
}

void group_add_native(const CommunicatorPointer& communicator, Stream stream) {
  current().held.push_back(communicator);
  current().natives.push_back({communicator.get(), stream, false});
}

void group_join_streams() {
  if (!has_several_streams()) return;
  // NCCL's own group sees to a communicator that has all its calls there.
  const auto has_pending = [](const Communicator* c) {
    return std::ranges::find(current().pending, c, &Job::communicator) != current().pending.end();
  };
  for (const Job& job : current().pending)
    current().join.add(*job.communicator, job.request.stream);
  for (const NativeCall& call : current().natives)
    if (has_pending(call.communicator)) current().join.add(*call.communicator, call.stream);
  try {
    current().join.require_one_recording();
  } catch (...) {
    current().is_void = true;  // NCCL would refuse the call
    throw;
  }
  current().join.meet();
}

bool group_reduces_by(ncclComm_t comm, ncclRedOp_t op) {
  return std::ranges::any_of(current().pending, [&](const Job& job) {
    return job.communicator->comm == comm && job.request.op == op;
  });
}

void settle_group(ncclResult_t result) {
  for (const Job& job : current().pending) settle(job, result, "ncclGroupEnd");
}

void group_call_nccl() {
  for (const Job& job : current().pending) {
    with_context(job, [&] {
      const Communicator& c = *job.communicator;
      check_begun(c.library, call_native(c, job.request), "native NCCL");
    });
    current().natives.push_back({job.communicator, job.request.stream, true});
  }
  current().pending.clear();
}

void group_call_nccl_for_messages() {
  const auto is_for_nccl = [](const Job& job) { return job.is_native() && !job.route.choice; };
  if (current().natives.empty() && std::ranges::all_of(current().pending, is_for_nccl))
    group_call_nccl();
}

void group_end() {
  if (current().depth == 0) fail(ncclInvalidUsage, "there is no group to end");
  if (--current().depth > 0) return;
  try {
    if (current().error != nullptr) std::rethrow_exception(current().error);
    if (current().join.empty()) group_join_streams();
  } catch (const std::exception& cause) {
    group_abandon(cause, FailureScope::kPending);
    throw;
  }
  Group group = std::exchange(current(), {});
  decide(group.pending);
  run(group.pending);
  group.join.meet();
  group.pending.clear();
  group.held.clear();
  group.natives.clear();
  current().pending = std::move(group.pending);  // keeps their memory for the next group
  current().held = std::move(group.held);
  current().natives = std::move(group.natives);
}

}  // namespace terse
