#include "engine/route.h"

#include "policy/settings.h"

namespace terse {
namespace {

Route bypass(int reason, uint32_t rule) {
  return {.scheme = {}, .rule = rule, .reduction = {}, .bypass = reason};
}

Route compress_if_possible(const Communicator& c, const Request& request, const Scheme& scheme,
                           uint32_t rule) {
  codec::Dtype dtype;
  if (scheme.off) return bypass(TERSE_BYPASS_OFF, rule);
  if (!compressible(request.datatype, &dtype)) return bypass(TERSE_BYPASS_DTYPE, rule);
  const std::optional<Reduction> reduction = c.operators.find(request);
  if (!reduction) return bypass(TERSE_BYPASS_OP, rule);
  if (c.ranks == 1) return bypass(TERSE_BYPASS_ONE_RANK, rule);
  return {.scheme = scheme, .rule = rule, .reduction = *reduction, .bypass = {}};
}

}  // namespace

Route route(const Communicator& c, const Request& request, const Scheme& scheme) {
  return compress_if_possible(c, request, scheme, kNoRule);
}

Route route(const Communicator& c, const Request& request) {
  const Decision decision =
      settings().policy.decide({request.collective, message_bytes(request, c.ranks)});
  if (decision.scheme == nullptr) return bypass(decision.bypass, decision.rule);
  return compress_if_possible(c, request, *decision.scheme, decision.rule);
}

void count_bypass(Communicator& c, const Request& r, int reason) {
  ++c.stats.bypasses[reason];
  const size_t bytes = message_bytes(r, c.ranks);
  const size_t share = bytes * (c.ranks - 1) / c.ranks;
  c.stats.native_bytes += r.collective == plan::Collective::kAllReduce ? 2 * share : share;
}

}  // namespace terse
