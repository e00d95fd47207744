// Memory for the time of a call or a group: on the stack, and from the heap if that is not enough,
// as for groups of hundreds of calls.
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
