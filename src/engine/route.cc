#include "engine/route.h"

#include "policy/settings.h"

namespace terse {
namespace {

std::optional<int> bypass_reason(const Communicator& c, const Request& request,
                                 const Scheme& scheme) {
  codec::Dtype dtype;
  if (scheme.off) return TERSE_BYPASS_OFF;
  if (!compressible(request.datatype, &dtype)) return TERSE_BYPASS_DTYPE;
  if (!compressible(request)) return TERSE_BYPASS_OP;
  if (c.ranks == 1) return TERSE_BYPASS_ONE_RANK;
  return {};
}

}  // namespace

Route route(const Communicator& c, const Request& request, const Scheme& scheme) {
  return {scheme, kNoRule, bypass_reason(c, request, scheme)};
}

Route route(const Communicator& c, const Request& request) {
  const Decision decision =
      settings().policy.decide({request.collective, message_bytes(request, c.ranks)});
  if (decision.scheme == nullptr) return {{}, decision.rule, decision.bypass};
  return {*decision.scheme, decision.rule, bypass_reason(c, request, *decision.scheme)};
}

void count_bypass(Communicator& c, const Request& r, int reason) {
  ++c.stats.bypasses[reason];
  const size_t bytes = message_bytes(r, c.ranks);
  const size_t share = bytes * (c.ranks - 1) / c.ranks;
  c.stats.native_bytes += r.collective == plan::Collective::kAllReduce ? 2 * share : share;
}

}  // namespace terse
