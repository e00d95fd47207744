// Network and GPUs of this machine, as its kernel describes them.
#pragma once

#include <cstdint>
#include <string>

namespace terse {

// Returns Gbit/s of all active InfiniBand and RoCE ports, or, without one, of all Ethernet cards
// that are up; 0: unknown. `sys`: where sysfs is mounted.
uint64_t network_gigabits(const std::string& sys = "/sys");

// Returns the name of a GPU by NVIDIA's driver, without any call of CUDA; "": there is none.
// `proc`: where procfs is mounted.
std::string gpu_name(const std::string& proc = "/proc");

}  // namespace terse
