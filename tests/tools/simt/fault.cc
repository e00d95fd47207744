#include "fault.h"

#include <fmt/format.h>

#include "warp.h"

namespace terse::simt {

Fault::Fault(uint32_t block, uint32_t thread, const std::string& what)
    : std::runtime_error(fmt::format("block {}, thread {} (warp {}, lane {}): {}", block, thread,
                                     thread / internal::kLanes, thread % internal::kLanes, what)),
      block_(block),
      thread_(thread) {}

}  // namespace terse::simt
