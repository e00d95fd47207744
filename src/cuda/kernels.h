// The compiled kernels.
#pragma once

#include "batch.h"
#include "table.h"

namespace terse::kernels {

using Kernel = void (*)(Batch);

// The table of `bits` bits; each is compiled in an object file of its own.
template <int bits>
const Table<Kernel>& kernels();

}  // namespace terse::kernels
