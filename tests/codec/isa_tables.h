// The tables of block operations that there are.
#pragma once

#include "codec/host_ops.h"

namespace terse::codec {

namespace baseline {
extern const HostOps kOps;
}
#ifdef TERSE_X86_LEVELS
namespace x86_64_v3 {
extern const HostOps kOps;
}
namespace x86_64_v4 {
extern const HostOps kOps;
}
#endif

}  // namespace terse::codec
