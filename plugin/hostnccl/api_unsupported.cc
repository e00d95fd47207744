// The functions of NCCL's that hostnccl does not have, so that programs that are linked to them
// load: they say so when they are called. Their arguments are nobody's business.
#include "api.h"

namespace {

ncclResult_t refuse(const char* function) noexcept {
  return hostnccl::guard(function, [] {
    hostnccl::fail(ncclInvalidUsage, "hostnccl does not support it: there is no device");
  });
}

}  // namespace

// All return an ncclResult_t, and none has more arguments than registers hold, or has them read.
#define HOSTNCCL_UNSUPPORTED(name)                                                          \
  extern "C" [[gnu::visibility("default"), gnu::weak]] ncclResult_t nccl##name() noexcept { \
    return refuse("nccl" #name);                                                            \
  }                                                                                         \
  extern "C" [[gnu::visibility("default"), gnu::alias("nccl" #name)]] ncclResult_t          \
      pnccl##name() noexcept;

HOSTNCCL_UNSUPPORTED(DevCommCreate)
HOSTNCCL_UNSUPPORTED(DevCommDestroy)
