#include "reduce.h"

#ifdef HOSTNCCL_X86_VARIANTS
#include <cpuid.h>
#endif

#include <cstring>
#include <iterator>

namespace hostnccl {
namespace {

constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(std::size(kSizes) == ncclNumTypes && Kernels::kTypes == ncclNumTypes);

#ifdef HOSTNCCL_X86_VARIANTS
// (Not every compiler can ask for it by name.)
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// Chooses the kernels of the newest instruction set that is compiled in and that the machine has.
const Kernels& choose() {
#ifdef HOSTNCCL_X86_VARIANTS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return kKernelsAvx512;
  if (avx2) return kKernelsAvx2;
#endif
  return kKernelsBaseline;
}

const Kernels& best() {
  static const Kernels& best = choose();
  return best;
}

}  // namespace

size_t size_of(ncclDataType_t dtype) {
  const auto index = static_cast<unsigned>(dtype);
  return index < std::size(kSizes) ? kSizes[index] : 0;
}

Reduction::Reduction(const Operator& op, ncclDataType_t dtype, int nranks) : nranks_(nranks) {
  const Kernels& kernels = best();
  const bool average = op.kind == ncclAvg;
  combine_ = kernels.combine[dtype][average ? ncclSum : op.kind];
  if (op.scaled) {
    scale_ = kernels.scale[dtype];
    scalar_ = op.scalar;
    if (op.device_scalar != nullptr) {
      std::memcpy(scalar_.data(), op.device_scalar, size_of(dtype));
    }
  } else if (average && nranks > 1) {
    divide_ = kernels.divide[dtype];
    if (kernels.reciprocal[dtype] != nullptr) {
      kernels.reciprocal[dtype](scalar_.data(), nranks);
      scale_ = kernels.scale[dtype];
    }
  }
}

}  // namespace hostnccl
