#include "engine/call/route.h"

#include <algorithm>

#include "base/error.h"
#include "engine/call/trace.h"
#include "engine/peers/agree.h"
#include "engine/run/work.h"
#include "policy/reasons.h"

namespace terse {
namespace {

Route bypass(int reason, uint32_t rule) { return {.rule = rule, .way = Native{reason}}; }

// Returns true if a call is predicted to gain too little from a preset's scheme.
bool is_slow(Communicator& c, const Request& request, const Scheme& scheme, uint32_t rule) {
  if (!c.settings.policy.is_of_preset(rule) || c.topology().nodes() == 0 || request.count == 0)
    return false;
  codec::Dtype dtype{};
  compressible(request.datatype, &dtype);
  return c.routing().savings().are_too_little(
      c.profile(), scheme, {request.collective, request.count, dtype, c.ranks, request.root},
      c.routing().machines());
}

Route compress_if_possible(Communicator& c, const Request& request, const Scheme& wanted,
                           uint32_t rule) {
  // A scheme does not serve a call that is not for it, or so many ranks.
  if (const auto reason = bypass_reason(request, c.ranks, wanted)) return bypass(*reason, rule);
  const Scheme scheme = c.with_context([&] { return require_on_ranks(wanted, c.ranks); });
  if (const auto reason = bypass_reason(request, c.ranks, scheme)) return bypass(*reason, rule);
  const bool to_itself = plan::is_point_to_point(request.collective) && request.root == c.rank;
  if (to_itself) return bypass(TERSE_BYPASS_ONE_RANK, rule);
  const std::optional<Reduction> reduction = c.routing().operators().find(request);
  if (!reduction) return bypass(TERSE_BYPASS_OP, rule);  // unknown operator
  if (is_native_within_nodes(request, scheme)) return bypass(TERSE_BYPASS_OP, rule);
  if (is_slow(c, request, scheme, rule)) return bypass(TERSE_BYPASS_AUTO, rule);
  return {.rule = rule,
          .way = Compressed{.scheme = scheme,
                            .reduction = *reduction,
                            .delta = {.own_exact = scheme.delta.own_exact}}};
}

Route choose(Communicator& c, const Request& request, const Scheme& wanted, uint32_t rule) {
  if (const auto reason = bypass_reason(request, c.ranks, wanted)) return bypass(*reason, rule);
  if (request.count == 0) return {.rule = rule, .way = Compressed{wanted}};
  if (plan::is_point_to_point(request.collective))
    c.fail(ncclInvalidUsage, "auto is for collectives of all ranks, not for {}",
           plan::name(request.collective));
  codec::Dtype dtype{};
  compressible(request.datatype, &dtype);
  const Prediction& taken = c.with_context([&]() -> const Prediction& {
    return c.routing().chooser().of(
        c.profile(), wanted, {request.collective, request.count, dtype, c.ranks, request.root},
        c.routing().machines());
  });
  Route way = taken.scheme.off ? bypass(TERSE_BYPASS_AUTO, rule)
                               : compress_if_possible(c, request, taken.scheme, rule);
  if (!way.bypass()) way.compressed().scheme.seed = wanted.seed;
  way.choice = Choice{wanted, *taken.seconds};
  return way;
}

Route route_by(Communicator& c, const Request& request, const Scheme& wanted, uint32_t rule) {
  return wanted.automatic ? choose(c, request, wanted, rule)
                          : compress_if_possible(c, request, wanted, rule);
}

// Scheme in place of the rules': the call's own, or the communicator's; null: neither. An automatic
// one of the communicator is for collectives only.
const Scheme* own_scheme(const Communicator& c, const Request& request) {
  if (const Scheme* const of_call = request.config.scheme.get()) return of_call;
  const Scheme* const of_comm = c.routing().own_scheme();
  const bool serves =
      of_comm == nullptr || !of_comm->automatic || !plan::is_point_to_point(request.collective);
  return serves ? of_comm : nullptr;
}

Route traced(const Communicator& c, const Request& request, Route way) {
  trace(c, request, way);
  return way;
}

// Throws Error if ranks cannot meet for a call. `with_all`: a call of all ranks goes beside it.
void require_meeting(const PendingCall& call, bool with_all) {
  const Communicator& c = *call.communicator;
  if (!with_all || c.recording(call.request->stream) != 0) require_valid(c.settings);
  const char* const name = plan::name(call.request->collective);
  if (!with_all)
    c.fail(ncclInvalidUsage,
           "{} goes by the number of nodes, which the ranks have not told each other yet: a call "
           "of all of them must come before, or in the same group",
           name);
  if (c.recording(call.request->stream) != 0)
    c.fail(ncclInvalidUsage,
           "{}: the policy goes by the number of nodes, which the ranks have not told each other "
           "yet, and cannot while a graph is recorded: call it once before",
           name);
}

// Poisons the other communicators of calls that cannot meet, whose ranks may meet for them.
void require_meetings(std::span<const PendingCall> calls) {
  const auto is_message = [](const PendingCall& call) {
    return plan::is_point_to_point(call.request->collective);
  };
  for (const PendingCall& call : calls) try {
      require_meeting(call, std::ranges::any_of(calls, [&](const PendingCall& other) {
                        return other.communicator == call.communicator && !is_message(other);
                      }));
    } catch (const std::exception& cause) {
      for (const PendingCall& other : calls)
        if (other.communicator != call.communicator)
          other.communicator->poison(other.request->stream, cause);
      throw;
    }
}

}  // namespace

std::optional<int> bypass_reason(const Request& request, int ranks, const Scheme& scheme) {
  codec::Dtype dtype;
  if (scheme.off) return TERSE_BYPASS_OFF;
  if (!compressible(request.datatype, &dtype)) return TERSE_BYPASS_DTYPE;
  // The scheme of auto is not known yet.
  if (!scheme.automatic && !is_for_type(scheme, request.collective, dtype))
    return TERSE_BYPASS_DTYPE;
  if (!compressible(request)) return TERSE_BYPASS_OP;
  if (!scheme.automatic && !serves(scheme, request.collective)) return TERSE_BYPASS_COLLECTIVE;
  if (ranks == 1) return TERSE_BYPASS_ONE_RANK;
  return {};
}

Facts facts_of(const Request& r, int ranks, const plan::Topology& topology, std::string_view name,
               bool gpu) {
  const ncclRedOp_t op = r.op < ncclNumOps ? r.op : kPreMulSum;
  return {r.collective, message_bytes(r, ranks), r.datatype, op, ranks, topology.nodes(), name, gpu,
          r.config.tag};
}

Facts facts_of(Communicator& c, const Request& request) {
  Facts facts = facts_of(request, c.ranks, c.topology(), c.name(), c.backend.is_gpu());
  codec::Dtype dtype{};
  if (compressible(request.datatype, &dtype))
    facts.fused_from = c.routing().fused_from(c.profile(), request.collective, dtype);
  return facts;
}

Route route(Communicator& c, const Request& request, const Scheme& scheme) {
  return traced(c, request, route_by(c, request, scheme, kNoRule));
}

bool needs_topology(const Communicator& c, const Scheme& scheme) {
  return scheme.automatic && c.topology().nodes() == 0;
}

bool needs_topology(const Communicator& c, const Request& request) {
  const Policy& policy = c.settings.policy;
  if (!c.settings.error.empty()) return true;
  if (request.config.native || c.topology().nodes() != 0) return false;
  if (const Scheme* const own = own_scheme(c, request); own != nullptr && own->automatic)
    return true;
  if (!policy.asks_nodes()) return false;
  return !plan::is_point_to_point(request.collective) ||
         policy.turns_on_nodes(facts_of(request, c.ranks, {}, c.name(), c.backend.is_gpu()));
}

void discover_topology(std::span<const PendingCall> calls) {
  require_meetings(calls);
  std::vector<Agreement> settings_alone;
  for (const PendingCall& call : calls)
    settings_alone.push_back({call.communicator, nullptr, call.request->stream});
  agree(settings_alone);
}

namespace {

PlanPointer plan_with(Communicator& c, const Request& request, const Scheme& scheme) {
  codec::Dtype dtype{};
  compressible(request.datatype, &dtype);
  return c.routing().plans().of({.collective = request.collective,
                                 .root = request.root,
                                 .count = request.count,
                                 .dtype = dtype,
                                 .forms = scheme.forms(),
                                 .algorithm = scheme.algorithm,
                                 .delta = {.own_exact = scheme.delta.own_exact},
                                 .verified = false,
                                 .learns = false});
}

}  // namespace

bool is_to_be_fused(Communicator& c, const Request& request, const Scheme& scheme) {
  return !scheme.delta && !plan::is_point_to_point(request.collective) &&
         plan_with(c, request, scheme)->with_windows != nullptr;
}

bool is_predicted_slow(Communicator& c, const Request& request, const Scheme& scheme) {
  if (c.profile() == nullptr || plan::is_point_to_point(request.collective) || scheme.delta)
    return false;
  const PlanPointer plan = plan_with(c, request, scheme);
  return plan->is_slow && !plan->asked_for;
}

namespace {

// Returns true if a rule takes a call as one that is fused, for its size, and it is not.
bool is_too_small_in_steps(Communicator& c, const Request& request, const Facts& facts,
                           const Decision& decision) {
  if (decision.scheme == nullptr || decision.rule == kNoRule || request.count == 0) return false;
  if (!c.settings.policy.rules.at(decision.rule).match.usual ||
      facts.bytes >= default_min_bytes_in_steps(facts))
    return false;
  const Route way = route_by(c, request, *decision.scheme, decision.rule);
  return !way.bypass() && !is_to_be_fused(c, request, way.compressed().scheme);
}

}  // namespace

// A call's own configuration precedes the rules, unless it says off.
Route route_silently(Communicator& c, const Request& request) {
  if (c.routing().is_paused() || request.config.exact) return bypass(TERSE_BYPASS_OFF, kNoRule);
  if (request.config.native) return bypass(TERSE_BYPASS_CONFIG, kNoRule);
  Facts facts = facts_of(c, request);
  Decision decision = c.settings.policy.decide(facts);
  if (is_too_small_in_steps(c, request, facts, decision)) {
    facts.fused_from = ~size_t{0};
    decision = c.settings.policy.decide(facts);
  }
  const bool says_off = decision.scheme == nullptr && decision.rule != kNoRule;
  if (const Scheme* const own = own_scheme(c, request); own != nullptr && !says_off)
    return route_by(c, request, *own, kNoRule);
  return decision.scheme == nullptr ? bypass(decision.bypass, decision.rule)
                                    : route_by(c, request, *decision.scheme, decision.rule);
}

Route route(Communicator& c, const Request& request) {
  const Route way = traced(c, request, route_silently(c, request));
  if (const auto reason = way.bypass()) require_not_native(c, request, *reason);
  return way;
}

void require_not_native(const Communicator& c, const Request& r, int reason) {
  if (!r.config.must_compress || c.ranks == 1) return;
  c.fail(ncclInvalidUsage, "{}: its configuration asks that it is compressed, but {}",
         plan::name(r.collective), bypass_reason(reason));
}

void count_bypass(Communicator& c, const Request& r, int reason) {
  c.metrics().counters().add_size(reason == TERSE_BYPASS_OFF ? Outcome::kNative : Outcome::kSkipped,
                                  message_bytes(r, c.ranks));
  c.metrics().counters().add_native(reason, native_traffic(c, r));
}

}  // namespace terse
