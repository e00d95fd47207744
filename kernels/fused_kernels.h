// The compiled kernels of fused calls.
#pragma once

#include "kernels/device/exchange.h"
#include "kernels/device/kernel_table.h"

namespace terse::kernels {

// On thread blocks of kThreads threads, all of which run at once.
using FusedKernel = void (*)(FusedPieces, Exchange);

// The table of `bits` bits for elements of a type, by how packed memory is written.
template <int bits, class Raw>
const Table<FusedKernel>& fused_kernels();

// Kernel by which a call packs, for codes of 4, 6, 8 and 16 bits; null: there is none.
FusedKernel find_fused_kernel(const KernelId& id);

// Visits all that there are.
void each_fused_kernel(void (*visit)(FusedKernel kernel));

}  // namespace terse::kernels
