#include "host.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace terse::fake {
namespace {

Host find() {
  void* library = dlopen(TERSE_HOSTNCCL, RTLD_NOW | RTLD_LOCAL);
  const auto get = [&]<class Function>(Function& function, const char* name) {
    function = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr) return;
    std::fprintf(stderr, "the fake CUDA runtime finds no %s: %s\n", name, dlerror());
    std::abort();
  };
  Host h{};
  get(h.StreamCreate, "hostncclStreamCreate");
  get(h.StreamDestroy, "hostncclStreamDestroy");
  get(h.StreamSynchronize, "hostncclStreamSynchronize");
  get(h.StreamQuery, "hostncclStreamQuery");
  get(h.LaunchHostFunc, "hostncclLaunchHostFunc");
  get(h.EventCreate, "hostncclEventCreate");
  get(h.EventDestroy, "hostncclEventDestroy");
  get(h.EventRecord, "hostncclEventRecord");
  get(h.StreamWaitEvent, "hostncclStreamWaitEvent");
  get(h.EventElapsedTime, "hostncclEventElapsedTime");
  return h;
}

}  // namespace

const Host& host() {
  static const Host found = find();
  return found;
}

cudaError_t translate(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return cudaSuccess;
    case ncclInProgress:
      return cudaErrorNotReady;
    case ncclInvalidArgument:
      return cudaErrorInvalidResourceHandle;
    case ncclInvalidUsage:
      return cudaErrorNotPermitted;
    default:
      return cudaErrorUnknown;
  }
}

}  // namespace terse::fake
