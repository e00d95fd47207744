#include "engine/group.h"

#include "base/error.h"
#include "engine/agree.h"
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

ncclResult_t call_native(const NcclTable& nccl, const Request& r) {
  switch (r.collective) {
    case plan::Collective::kAllReduce:
      return nccl.AllReduce(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
    case plan::Collective::kAllGather:
      return nccl.AllGather(r.send, r.recv, r.count, r.datatype, r.comm, r.stream);
    case plan::Collective::kReduceScatter:
      break;
  }
  return nccl.ReduceScatter(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
}

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

}  // namespace

std::optional<int> bypass_reason(const Communicator& c, const Request& request,
                                 const Scheme& scheme) {
  codec::Dtype dtype;
  if (scheme.off) return TERSE_BYPASS_OFF;
  if (!compressible(request.datatype, &dtype)) return TERSE_BYPASS_DTYPE;
  if (!compressible(request)) return TERSE_BYPASS_OP;
  if (c.ranks == 1) return TERSE_BYPASS_ONE_RANK;
  return {};
}

void count_bypass(Communicator& c, const Request& r, int reason) {
  ++c.stats.bypasses[reason];
  const size_t bytes = message_bytes(r, c.ranks);
  const size_t share = bytes * (c.ranks - 1) / c.ranks;
  c.stats.native_bytes += r.collective == plan::Collective::kAllReduce ? 2 * share : share;
}

void submit(const Request& request, const Scheme& scheme) {
  try {
    require_valid(settings());
    validate(request);
    Communicator& c = communicator(request.comm);
    Pending now;
    Pending& pending = t_group.depth > 0 ? t_group.pending : now;
    if (const std::optional<int> reason = bypass_reason(c, request, scheme)) {
      count_bypass(c, request, *reason);
      pending.native.push_back({&c, request, scheme});
    } else if (request.count != 0) {
      pending.compressed.push_back({&c, request, scheme});
    }
    run(now);
  } catch (Error& e) {
    if (const Communicator* c = find_communicator(request.comm)) c->sign(e);
    if (t_group.depth > 0 && !t_group.error) t_group.error = e;
    throw;
  }
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
