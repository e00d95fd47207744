// The compiled kernels of fused calls.
#pragma once

#include "kernels/device/exchange.h"
#include "kernels/device/kernel_table.h"

namespace terse::kernels {

// On thread blocks of kThreads threads, all of which run at once.
using FusedKernel = void (*)(Batch, Exchange);

// The table of `bits` bits, by how packed memory is written.
template <int bits>
const Table<FusedKernel>& fused_kernels();

}  // namespace terse::kernels
