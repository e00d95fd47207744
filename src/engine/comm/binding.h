// Buffers of a call under way: a plan bound to addresses (run/bind.h). Reused from call to call.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace terse {

struct Binding {
  std::vector<std::vector<codec::Combine>> batches;  // by step
  std::vector<codec::Source> sources;                // sources of the batches
  std::vector<std::vector<Copy>> copies;             // by step
  std::vector<std::vector<codec::Checksum>> checks;  // by step
  std::vector<std::vector<codec::Learning>> learns;  // by step
  std::vector<HeaderStep> headers;                   // of the steps with a header
  FusedCall fused;                                   // of a fused plan
  std::atomic<bool> busy{false};
};

// Bindings of one communicator.
class Bindings {
 public:
  // Returns a binding that is not in use.
  Binding& idle() {
    for (const auto& binding : all_)
      if (!binding->busy.load(std::memory_order_acquire)) return *binding;
    return *all_.emplace_back(std::make_unique<Binding>());
  }

 private:
  std::vector<std::unique_ptr<Binding>> all_;
};

}  // namespace terse
