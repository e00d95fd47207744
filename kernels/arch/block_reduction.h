// The values of a thread block's threads made into one: by CUB, or by what TERSE_BLOCK_REDUCTION
// names.
#pragma once

#ifdef TERSE_BLOCK_REDUCTION
#include TERSE_BLOCK_REDUCTION
#else
#include "kernels/arch/gpu_block_reduction.h"
#endif
