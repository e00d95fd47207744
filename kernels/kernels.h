// The compiled kernels.
#pragma once

#include "kernels/device/batch.h"
#include "kernels/device/kernel_table.h"

namespace terse::kernels {

using Kernel = void (*)(Batch);

// The table of `bits` bits; each is compiled in an object file of its own.
template <int bits>
const Table<Kernel>& kernels();

}  // namespace terse::kernels
