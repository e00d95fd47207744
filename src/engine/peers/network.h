// Network of this machine, as its kernel describes it.
#pragma once

#include <cstdint>
#include <string>

namespace terse {

// Returns Gbit/s of all active InfiniBand and RoCE ports, or, without one, of all Ethernet cards
// that are up; 0: unknown. `sys`: where sysfs is mounted.
uint64_t network_gigabits(const std::string& sys = "/sys");

}  // namespace terse
