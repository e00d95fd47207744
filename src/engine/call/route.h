// Route of a call: a scheme, or NCCL for a reason that is counted. Decided once per call, from what
// all ranks know.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/run/job.h"
#include "policy/policy.h"

namespace terse {

// Returns true if ranks must exchange their nodes before the policy decides on the call, as at the
// first call of a communicator made past the preload library. If any rule goes by nodes, every call
// of all ranks needs it, so that settings that differ do not part the ranks; a message, which most
// ranks do not see, only if it matters. Also true if this rank cannot read its settings: the others
// would wait for it at their first compressed call.
bool needs_topology(const Communicator& communicator, const Request& request);

// Call that needs_topology().
struct PendingCall {
  Communicator* communicator;
  const Request* request;
};

// Exchanges the ranks' nodes: collective over the communicators together, and blocking. NCCL's own
// group must not be open. Throws Error; ncclInvalidUsage if all calls on a communicator are
// messages, which its other ranks do not see, or if a graph is recorded. Poisons the communicators
// that do not fail alike on all ranks.
void discover_topology(std::span<const PendingCall> calls);

// Route by the call's own configuration and the settings' policy, of a call that does not need
// topology. Throws Error, also by require_not_native().
Route route(Communicator& communicator, const Request& request);

// Route of a hypothetical call, without a log line.
Route route_silently(Communicator& communicator, const Request& request);

// Route with a scheme that the caller names.
Route route(Communicator& communicator, const Request& request, const Scheme& scheme);

// Returns true if auto would choose before the ranks have exchanged their nodes.
bool needs_topology(const Communicator& communicator, const Scheme& scheme);

// Returns true if the call is fused with the scheme, provided that all ranks get windows.
bool is_to_be_fused(Communicator& communicator, const Request& request, const Scheme& scheme);
// Returns true if the call stays native, for a profile predicts that NCCL is faster; auto, which
// has predicted that itself, aside.
bool is_predicted_slow(Communicator& communicator, const Request& request, const Scheme& scheme);

// Facts of the call for the policy. `topology` may be unknown.
Facts facts_of(const Request& request, int ranks, const plan::Topology& topology,
               std::string_view name, bool gpu);

// The same of a communicator's call.
Facts facts_of(Communicator& communicator, const Request& request);

// Reason why the call cannot be compressed with the scheme; empty: it can.
std::optional<int> bypass_reason(const Request& request, int ranks, const Scheme& scheme);

void count_bypass(Communicator& communicator, const Request& request, int reason);

// Throws Error(ncclInvalidUsage) if the call stays native for the reason and its configuration asks
// that it does not: on all ranks alike, and not on one rank alone.
void require_not_native(const Communicator& communicator, const Request& request, int reason);

}  // namespace terse
