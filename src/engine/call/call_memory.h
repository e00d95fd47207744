// Memory for what lives no longer than a call or a group: on the stack, and from the heap only when
// that is not enough, as for groups of hundreds of calls.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>

namespace terse {

class CallMemory {
 public:
  std::pmr::memory_resource* get() { return &resource_; }

 private:
  alignas(std::max_align_t) std::array<std::byte, 32 << 10> first_;
  std::pmr::monotonic_buffer_resource resource_{first_.data(), first_.size()};
};

}  // namespace terse
