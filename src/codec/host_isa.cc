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
  static const HostOps& chosen = __builtin_cpu_supports("x86-64-v4")   ? x86_64_v4::kOps
                                 : __builtin_cpu_supports("x86-64-v3") ? x86_64_v3::kOps
                                                                       : baseline::kOps;
  return chosen;
#else
  return baseline::kOps;
#endif
}

}  // namespace terse::codec
