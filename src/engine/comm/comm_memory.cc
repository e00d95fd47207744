#include "engine/comm/comm_memory.h"

#include <algorithm>

namespace terse {

bool CommMemory::awaits_ranks() const noexcept {
  return (control_buffer_ != nullptr && !control_buffer_->has_ended()) ||
         !std::ranges::all_of(left_, [](const auto& left) { return left->has_ended(); });
}

}  // namespace terse
