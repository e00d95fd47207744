// The functions of NCCL's that hostnccl does not have (unsupported.inc), so that programs that are
// linked to them load: they say so when they are called, and look at none of their arguments.
#include "api.h"

namespace {

using Result = ncclResult_t;
struct Number {  // as long as any structure that is returned in registers
  long low, high;
};
using Nothing = void;

template <class Returns>
Returns refuse(const char* function) noexcept {
  const ncclResult_t code = hostnccl::guard(
      function, [] { hostnccl::fail(ncclInvalidUsage, "not supported by hostnccl"); });
  if constexpr (std::is_same_v<Returns, ncclResult_t>) {
    return code;
  } else {
    return Returns();
  }
}

}  // namespace

#define HOSTNCCL_UNSUPPORTED(name, returns)                                            \
  extern "C" [[gnu::visibility("default"), gnu::weak]] returns nccl##name() noexcept { \
    return refuse<returns>("nccl" #name);                                              \
  }                                                                                    \
  extern "C"                                                                           \
      [[gnu::visibility("default"), gnu::alias("nccl" #name)]] returns pnccl##name() noexcept;
#include "unsupported.inc"
