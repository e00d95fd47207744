// Chooses the block operations for this processor.
#include "codec/host_ops.h"

namespace terse::codec {

#define TERSE_DECLARE_ISA(name) \
  namespace name {              \
  extern const HostOps kOps;    \
  }
TERSE_DECLARE_ISA(baseline)
#ifdef TERSE_X86_LEVELS
TERSE_DECLARE_ISA(x86_64_v3)
TERSE_DECLARE_ISA(x86_64_v4)
#endif

const HostOps& host_ops() {
#ifdef TERSE_X86_LEVELS
  // clang 14 does not know the levels by name.
  static const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  static const bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const HostOps& chosen = v4 ? x86_64_v4::kOps : v3 ? x86_64_v3::kOps : baseline::kOps;
  return chosen;
#else
  return baseline::kOps;
#endif
}

}  // namespace terse::codec
