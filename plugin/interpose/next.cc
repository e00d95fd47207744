#include "interpose/next.h"

#include <atomic>

#include "base/first_made.h"
#include "engine/comm/agreed.h"
#include "interpose/entry_slots.h"
#include "interpose/last_error.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// Set while we open NCCL for the first time: a library that looks it up then gets no answer from
// us.
thread_local bool t_resolving = false;

Next resolve() {
  struct Resolving {
    Resolving() { t_resolving = true; }
    ~Resolving() { t_resolving = false; }
  } const resolving;
  set_preloaded();
  Next n{};
  n.library = &nccl_library(settings().nccl);
  const auto find = [&](const char* name, auto& function) {
    nccl_function(n.library->found.handle, name, function);
  };
  find("ncclCommInitRank", n.CommInitRank);
  find("ncclCommInitRankConfig", n.CommInitRankConfig);
  find("ncclCommInitRankScalable", n.CommInitRankScalable);
  find("ncclCommInitAll", n.CommInitAll);
  find("ncclCommSplit", n.CommSplit);
  find("ncclCommShrink", n.CommShrink);
  find("ncclCommGrow", n.CommGrow);
  find("ncclCommFinalize", n.CommFinalize);
  find("ncclCommDestroy", n.CommDestroy);
  find("ncclCommAbort", n.CommAbort);
  find("ncclCommRevoke", n.CommRevoke);
  find("ncclGetLastError", n.GetLastError);
  find("ncclBcast", n.Bcast);
#define NCCL_COLLECTIVE(suffix, ...) find("nccl" #suffix "Config", n.suffix##Config);
#define NCCL_MESSAGE(...)
#include <nccl_collectives.inc>
  find("ncclGroupSimulateEnd", n.GroupSimulateEnd);
  find("ncclRedOpCreatePreMulSum", n.RedOpCreatePreMulSum);
  find("ncclRedOpDestroy", n.RedOpDestroy);
  bind_entries(*n.library);
  return n;
}

}  // namespace

const Next& next() {
  if (t_resolving) fail(ncclInvalidUsage, "NCCL is called while its library is being opened");
  static constinit std::atomic<const Next*> place{nullptr};
  return first_made(place, resolve);
}

void fail_lacking(const char* name) {
  const NcclLibrary& library = *next().library;
  fail(ncclInvalidUsage, "the NCCL in use, {} ({}), has no {}", version(library),
       library.found.path, name);
}

ncclResult_t forwarded(ncclResult_t result) noexcept {
  if (result != ncclSuccess && result != ncclInProgress) nccl_failed_last();
  return result;
}

ncclResult_t own(const char* call, ncclResult_t (*body)(void*), void* context) noexcept {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t thrown = guard(call, [&] { result = body(context); });
  if (thrown == ncclSuccess) return forwarded(result);
  we_failed_last();
  return thrown;
}

}  // namespace terse::interpose
