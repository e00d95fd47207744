// What becomes of a call: it is compressed with a scheme, or goes to NCCL for a reason that is
// counted. Decided once per call, from what all ranks know.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/communicator.h"
#include "policy/policy.h"

namespace terse {

struct Route {
  Scheme scheme;
  uint32_t rule = kNoRule;  // of the policy; kNoRule: the caller named the scheme
  Reduction reduction;
  std::optional<int> bypass;  // a TERSE_BYPASS reason
};

// By the settings' policy, as the preload library does.
Route route(const Communicator& communicator, const Request& request);

// With a scheme that the caller names.
Route route(const Communicator& communicator, const Request& request, const Scheme& scheme);

void count_bypass(Communicator& communicator, const Request& request, int reason);

}  // namespace terse
