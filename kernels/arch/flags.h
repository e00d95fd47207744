// Flags by which kernels of several GPUs wait for each other: of a GPU, or of what TERSE_FLAGS
// names.
#pragma once

#ifdef TERSE_FLAGS
#include TERSE_FLAGS
#else
#include "kernels/arch/gpu_flags.h"
#endif
