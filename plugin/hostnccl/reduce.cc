#include "reduce.h"

#include <cstring>
#include <iterator>

namespace hostnccl {
namespace {

constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(std::size(kSizes) == ncclNumTypes && Kernels::kTypes == ncclNumTypes);

const Kernels& choose() {
#ifdef HOSTNCCL_X86_VARIANTS
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return kKernelsV4;
  if (v3) return kKernelsV3;
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
