// Ends calls that take longer than they may.
#pragma once

#include <chrono>

#include "work.h"

namespace torch_hostnccl {

using Deadline = std::chrono::steady_clock::time_point;

void watch(const WorkPtr& work, Deadline deadline);
void forget(const HostWork* work, Deadline deadline);

}  // namespace torch_hostnccl
