// Calls on their way to the executor.
#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/request.h"

namespace terse {

// A call that is to be compressed.
struct Job {
  Communicator* communicator;
  Request request;
  Scheme scheme;
  uint32_t rule;  // of the policy
  Reduction reduction;
  bool native = false;  // a message that travels as it is, beside what is compressed
  bool waits = false;   // for what the ranks tell each other, and only then is decided on
  std::optional<Scheme> chosen_by = {};  // auto, on which the ranks agree in place of the scheme
  double predicted = 0;                  // seconds, by auto
  plan::Delta delta = {};                // how it goes, where it gathers
  Shadow* shadow = nullptr;              // whose memory is the state of such a call

  const Scheme& named() const { return chosen_by ? *chosen_by : scheme; }
};

// Theirs who asked for them, which live longer.
using Jobs = std::pmr::vector<const Job*>;

}  // namespace terse
