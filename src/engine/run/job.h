// Calls for the executor, and how each goes.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <variant>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/request.h"

namespace terse {

// Until the ranks have exchanged their nodes.
struct Undecided {
  std::optional<Scheme> named = {};  // by the caller: auto; empty: the policy decides
};

// NCCL's call; a message has the place that it had among the group's compressed calls.
struct Native {
  int reason;  // a TERSE_BYPASS number
};

struct Compressed {
  Scheme scheme;
  Reduction reduction = {};
  plan::Delta delta = {};    // of an AllGather
  Shadow* shadow = nullptr;  // state of such a call
};

// Choice by auto, on which the ranks agree in place of the scheme.
struct Choice {
  Scheme automatic;
  double seconds;  // predicted
};

struct Route {
  uint32_t rule = kNoRule;  // in the policy; kNoRule: the caller named the scheme
  std::variant<Undecided, Native, Compressed> way = {};
  std::optional<Choice> choice = {};

  // TERSE_BYPASS reason of a native call.
  std::optional<int> bypass() const {
    const Native* const native = std::get_if<Native>(&way);
    return native != nullptr ? std::optional(native->reason) : std::nullopt;
  }
  // Requires a compressed call.
  const Compressed& compressed() const { return std::get<Compressed>(way); }
  Compressed& compressed() { return std::get<Compressed>(way); }
};

// Call of a group, or alone.
struct Job {
  Communicator* communicator;
  Request request;
  Route route;

  bool is_native() const { return std::holds_alternative<Native>(route.way); }
  bool is_undecided() const { return std::holds_alternative<Undecided>(route.way); }
  const Compressed& compressed() const { return route.compressed(); }
  Compressed& compressed() { return route.compressed(); }
  const Scheme& scheme() const { return compressed().scheme; }
  // Scheme that the ranks agree on.
  const Scheme& named() const { return route.choice ? route.choice->automatic : scheme(); }
};

// Non-owning; the jobs outlive the vector.
using Jobs = std::pmr::vector<Job*>;

}  // namespace terse
