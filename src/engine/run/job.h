// Calls for the executor.
#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/request.h"

namespace terse {

// Call to be compressed.
struct Job {
  Communicator* communicator;
  Request request;
  Scheme scheme;
  uint32_t rule;  // in the policy
  Reduction reduction;
  bool native = false;  // native message beside compressed calls
  bool waits = false;   // decided on after the ranks have exchanged what it waits for
  std::optional<Scheme> chosen_by = {};  // auto, on which the ranks agree in place of the scheme
  double predicted = 0;                  // seconds, by auto
  plan::Delta delta = {};                // of an AllGather
  Shadow* shadow = nullptr;              // state of such a call

  const Scheme& named() const { return chosen_by ? *chosen_by : scheme; }
};

// Non-owning; the jobs outlive the vector.
using Jobs = std::pmr::vector<const Job*>;

}  // namespace terse
