// Calls for the executor.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/request.h"

namespace terse {

enum class JobState : uint8_t {
  kUndecided,  // until the ranks have exchanged their nodes
  kNative,     // by NCCL; a message, in the place that it has among the group's compressed calls
  kCompressed,
};

// Call of a group, or alone.
struct Job {
  Communicator* communicator;
  Request request;
  Scheme scheme;
  uint32_t rule;  // in the policy
  Reduction reduction;
  JobState state = JobState::kCompressed;
  std::optional<Scheme> chosen_by = {};  // auto, on which the ranks agree in place of the scheme
  double predicted = 0;                  // seconds, by auto
  plan::Delta delta = {};                // of an AllGather
  Shadow* shadow = nullptr;              // state of such a call

  const Scheme& named() const { return chosen_by ? *chosen_by : scheme; }
  bool is_native() const { return state == JobState::kNative; }
};

// Non-owning; the jobs outlive the vector.
using Jobs = std::pmr::vector<const Job*>;

}  // namespace terse
