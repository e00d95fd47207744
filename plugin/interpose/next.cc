#include "interpose/next.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

namespace terse::interpose {
namespace {

// As NCCL keeps its last message for the whole process; the message itself is of the thread that
// asks.
std::atomic<bool> g_failed_last{false};

Next resolve() {
  Next n{};
  n.library = &nccl_library();
  void* handle = dlopen(n.library->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(ncclSystemError, "{}", dlerror());
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
  };
  find("ncclCommInitRank", n.CommInitRank);
  find("ncclCommInitRankConfig", n.CommInitRankConfig);
  find("ncclCommInitRankScalable", n.CommInitRankScalable);
  find("ncclCommInitAll", n.CommInitAll);
  find("ncclCommSplit", n.CommSplit);
  find("ncclCommShrink", n.CommShrink);
  find("ncclCommDestroy", n.CommDestroy);
  find("ncclCommAbort", n.CommAbort);
  find("ncclGetLastError", n.GetLastError);
  return n;
}

}  // namespace

const Next& next() {
  static const Next n = resolve();
  return n;
}

ncclResult_t forwarded(ncclResult_t result) noexcept {
  if (result != ncclSuccess && result != ncclInProgress) g_failed_last = false;
  return result;
}

ncclResult_t own(const char* call, ncclResult_t (*body)(void*), void* context) noexcept {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t thrown = guard(call, [&] { result = body(context); });
  if (thrown == ncclSuccess) return forwarded(result);
  g_failed_last = true;
  return thrown;
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t comm) {
  if (g_failed_last) return last_error();
  try {
    return next().GetLastError(comm);
  } catch (const std::exception&) {
    return last_error();
  }
}
