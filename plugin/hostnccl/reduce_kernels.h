// The arithmetic of one instruction set: a table over operator and data type.
//
// reduce_kernels.cc is compiled once per instruction set, each time under another
// HOSTNCCL_KERNELS name; reduce.cc picks a table at run time. Only plain types here, and no inline
// function from outside: the linker merges those, and might keep the one that this CPU cannot run.
#pragma once

#include <stddef.h>

namespace hostnccl {

struct Kernels {
  static constexpr int kTypes = 12;     // in the order of ncclDataType_t
  static constexpr int kOperators = 4;  // ncclSum, ncclProd, ncclMax, ncclMin

  // Any alignment; dst may be a or b, else they do not overlap.
  using Combine = void (*)(void* dst, const void* a, const void* b, size_t count);
  using Scale = void (*)(void* dst, const void* src, const void* scalar, size_t count);
  using Divide = void (*)(void* data, int divisor, size_t count);  // integers
  using Reciprocal = void (*)(void* scalar, int divisor);          // floats: 1/divisor, rounded

  Combine combine[kTypes][kOperators];
  Scale scale[kTypes];
  Divide divide[kTypes];          // null for floats
  Reciprocal reciprocal[kTypes];  // null for integers
};

extern const Kernels kKernelsBaseline;
#ifdef HOSTNCCL_X86_VARIANTS
extern const Kernels kKernelsAvx2;    // and FMA, F16C
extern const Kernels kKernelsAvx512;  // F, BW, CD, DQ, VL, and these
#endif

}  // namespace hostnccl
