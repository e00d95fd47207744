// All that kernel source asks of the machine: of a GPU, or of what TERSE_ARCH names. The tests name
// the CPU's (tests/tools/simt).
#pragma once

#ifdef TERSE_ARCH
#include TERSE_ARCH
#else
#include "kernels/arch/gpu.h"
#endif
