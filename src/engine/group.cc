#include "engine/group.h"

#include <optional>

#include "base/error.h"
#include "engine/agree.h"
#include "engine/native.h"
#include "policy/settings.h"

namespace terse {
namespace {

struct Pending {
  std::vector<Job> compressed;
  std::vector<Job> native;
};

// Per thread, as NCCL's groups.
struct Group {
  int depth = 0;
  Pending pending;
  std::optional<Error> error;  // the first; sticky until the end
};
thread_local Group t_group;

void run_native(const std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  const NcclLibrary& library = jobs.front().communicator->library;
  ncclResult_t first = library.nccl.GroupStart();
  for (const Job& job : jobs) {
    const ncclResult_t result = call_native(library.nccl, job.request);
    if (first == ncclSuccess) first = result;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  check(library, first == ncclSuccess ? end : first, "native NCCL");
}

void run(const Pending& pending) {
  run_native(pending.native);
  std::vector<Agreement> agreements;
  for (const Job& job : pending.compressed)
    agreements.push_back({job.communicator, &job.scheme, job.request.stream});
  agree(agreements);
  execute(pending.compressed);
}

// Now, or at the end of the thread's group.
void add(std::vector<Job> Pending::*kind, const Job& job) {
  if (t_group.depth > 0) {
    (t_group.pending.*kind).push_back(job);
    return;
  }
  Pending now;
  (now.*kind).push_back(job);
  run(now);
}

void compress(Communicator& c, const Request& request, const Route& way) {
  if (request.count != 0) add(&Pending::compressed, {&c, request, way.scheme, way.rule});
}

// Checks the call; an error inside a group is its last word too.
template <class Body>
void submitting(const Request& request, const Body& body) {
  try {
    require_valid(settings());
    validate(request);
    body();
  } catch (Error& e) {
    if (const Communicator* c = find_communicator(request.comm)) c->sign(e);
    if (t_group.depth > 0 && !t_group.error) t_group.error = e;
    throw;
  }
}

}  // namespace

void submit(const Request& request, const Scheme& scheme) {
  submitting(request, [&] {
    Communicator& c = communicator(request.comm);
    const Route way = route(c, request, scheme);
    if (!way.bypass) return compress(c, request, way);
    count_bypass(c, request, *way.bypass);
    add(&Pending::native, {&c, request, way.scheme, way.rule});
  });
}

void submit(Communicator& c, const Request& request, const Route& way) {
  submitting(request, [&] { compress(c, request, way); });
}

void group_start() { ++t_group.depth; }

int group_depth() { return t_group.depth; }

void group_abandon() { t_group = {}; }

void group_end() {
  if (t_group.depth == 0) fail(ncclInvalidUsage, "there is no group to end");
  if (--t_group.depth > 0) return;
  const Group group = std::move(t_group);
  t_group = {};
  if (group.error) throw *group.error;
  run(group.pending);
}

}  // namespace terse
