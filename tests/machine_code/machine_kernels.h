// What the kernels' machine code has beside the interface of cpu_kernels.h.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device/exchange.h"
#include "simt/executor.h"

namespace terse::kernels {

// How many instructions warps have issued. Kernels are run by one thread.
extern uint64_t issued;
// After how many instructions a block counts as one that never ends.
extern uint64_t issue_limit;

std::string kernel_name(const KernelId& id);

// Of the widths and types that are compiled.
std::string fused_name(const KernelId& id);
void machine_fused(const FusedBatch& batch, const simt::Launch& launch);

void machine_increment(uint64_t* number);

}  // namespace terse::kernels
