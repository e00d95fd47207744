#include "engine/route.h"

#include "engine/agree.h"
#include "engine/group.h"
#include "policy/settings.h"

namespace terse {
namespace {

Route bypass(int reason, uint32_t rule) {
  return {.scheme = {}, .rule = rule, .reduction = {}, .bypass = reason};
}

Route compress_if_possible(const Communicator& c, const Request& request, const Scheme& scheme,
                           uint32_t rule) {
  if (const auto reason = bypass_reason(request, c.ranks, scheme)) return bypass(*reason, rule);
  const bool to_itself = plan::is_point_to_point(request.collective) && request.root == c.rank;
  if (to_itself) return bypass(TERSE_BYPASS_ONE_RANK, rule);
  const std::optional<Reduction> reduction = c.operators.find(request);
  if (!reduction) return bypass(TERSE_BYPASS_OP, rule);  // an operator that is not known
  return {.scheme = scheme, .rule = rule, .reduction = *reduction, .bypass = {}};
}

void introduce(Communicator& c, const Request& request) {
  if (plan::is_point_to_point(request.collective))
    fail(
        ncclInvalidUsage,
        "{}: the policy goes by the number of nodes, which the ranks of a non-blocking "
        "communicator tell each other at its first call of all ranks; a message cannot come before",
        c.describe());
  if (group_depth() > 0)
    fail(ncclInvalidUsage,
         "{}: the policy goes by the number of nodes, which the ranks of a non-blocking "
         "communicator tell each other at its first call, and that must come before any group",
         c.describe());
  const Agreement settings_alone{&c, nullptr, request.stream};
  agree({&settings_alone, 1});
}

}  // namespace

std::optional<int> bypass_reason(const Request& request, int ranks, const Scheme& scheme) {
  codec::Dtype dtype;
  if (scheme.off) return TERSE_BYPASS_OFF;
  if (!compressible(request.datatype, &dtype)) return TERSE_BYPASS_DTYPE;
  if (!compressible(request)) return TERSE_BYPASS_OP;
  if (ranks == 1) return TERSE_BYPASS_ONE_RANK;
  return {};
}

Facts facts_of(const Request& r, int ranks, int nodes, std::string_view name) {
  const ncclRedOp_t op = r.op < ncclNumOps ? r.op : kPreMulSum;
  return {r.collective, message_bytes(r, ranks), r.datatype, op, ranks, nodes, name};
}

Route route(const Communicator& c, const Request& request, const Scheme& scheme) {
  return compress_if_possible(c, request, scheme, kNoRule);
}

Route route(Communicator& c, const Request& request) {
  const Policy& policy = settings().policy;
  if (c.nodes == 0 && policy.asks_nodes()) introduce(c, request);
  const Decision decision = policy.decide(facts_of(request, c.ranks, c.nodes, c.name));
  if (decision.scheme == nullptr) return bypass(decision.bypass, decision.rule);
  return compress_if_possible(c, request, *decision.scheme, decision.rule);
}

void count_bypass(Communicator& c, const Request& r, int reason) {
  ++c.stats.bypasses[reason];
  c.stats.native_bytes +=
      plan::raw_bytes(r.collective, r.count * datatype_size(r.datatype), {c.ranks, c.rank, r.root});
}

}  // namespace terse
