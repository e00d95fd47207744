// What becomes of a call: it is compressed with a scheme, or goes to NCCL for a reason that is
// counted. Decided once per call, from what all ranks know.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/comm/communicator.h"
#include "policy/policy.h"

namespace terse {

struct Route {
  Scheme scheme;
  uint32_t rule = kNoRule;  // of the policy; kNoRule: the caller named the scheme
  Reduction reduction;
  std::optional<int> bypass;             // a TERSE_BYPASS reason
  std::optional<Scheme> chosen_by = {};  // auto, on which the ranks agree in place of the scheme
  double predicted = 0;                  // seconds, by auto
};

// Whether the ranks have to tell each other how many nodes they are on before the settings' policy
// decides on the call, as those of a communicator that was made past us at its first one. Any call
// of all ranks does where a rule goes by that, so that settings that differ do not part them; but a
// message, which most of them do not see, only where it matters. And whether they have to hear that
// this rank cannot read its settings, for which they would wait at their first compressed call.
bool needs_topology(const Communicator& communicator, const Request& request);

// A call that does.
struct PendingCall {
  Communicator* communicator;
  const Request* request;
};

// The ranks tell each other: collective over each of the communicators, together, and it blocks the
// caller. NCCL's own group must not be open. Throws Error; ncclInvalidUsage where the calls on a
// communicator are all messages, of which its other ranks do not know, or a graph is recorded. The
// communicators that do not fail alike on all of their ranks are invalid then.
void discover_topology(std::span<const PendingCall> calls);

// By the call's own configuration and the settings' policy, as the preload library does; none that
// needs_topology(). Throws Error, also by require_not_native().
Route route(Communicator& communicator, const Request& request);

// The same, of a call that nobody makes: no line for it, whatever TERSE_LOG says.
Route route_silently(Communicator& communicator, const Request& request);

// With a scheme that the caller names.
Route route(Communicator& communicator, const Request& request, const Scheme& scheme);

// Whether auto is to choose before the ranks have told each other how many nodes they are on.
bool needs_topology(const Communicator& communicator, const Scheme& scheme);

// The call as the policy sees it. `topology` may be unknown.
Facts facts_of(const Request& request, int ranks, const plan::Topology& topology,
               std::string_view name, bool gpu);

// Why the call cannot be compressed with the scheme; empty: it can.
std::optional<int> bypass_reason(const Request& request, int ranks, const Scheme& scheme);

void count_bypass(Communicator& communicator, const Request& request, int reason);

// Throws Error(ncclInvalidUsage) where the call stays native for the reason, and its configuration
// asks that it does not: on all ranks alike, and not where there is but one.
void require_not_native(const Communicator& communicator, const Request& request, int reason);

}  // namespace terse
