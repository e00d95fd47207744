// Next NCCL: the one that the program would call without us.
#pragma once

#include "base/error.h"
#include "interpose/own_names.h"  // before all else
#include "nccl/table.h"

namespace terse::interpose {

// Functions of the next library; null if it lacks one.
struct Next {
  const NcclLibrary* library = nullptr;
  // NOLINTBEGIN(readability-identifier-naming): NCCL's names, without its prefix.
  decltype(&ncclCommInitRank) CommInitRank;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclCommInitRankScalable) CommInitRankScalable;
  decltype(&ncclCommInitAll) CommInitAll;
  decltype(&ncclCommSplit) CommSplit;
  decltype(&ncclCommShrink) CommShrink;
  decltype(&ncclCommGrow) CommGrow;
  decltype(&ncclCommFinalize) CommFinalize;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclCommRevoke) CommRevoke;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclBcast) Bcast;
#define NCCL_COLLECTIVE(suffix, ...) decltype(&nccl##suffix##Config) suffix##Config;
#define NCCL_MESSAGE(...)
#include <nccl_collectives.inc>
  decltype(&ncclGroupSimulateEnd) GroupSimulateEnd;
  decltype(&ncclRedOpCreatePreMulSum) RedOpCreatePreMulSum;
  decltype(&ncclRedOpDestroy) RedOpDestroy;
  // NOLINTEND(readability-identifier-naming)
};

// Resolved once. Throws Error(ncclSystemError) if there is no NCCL.
const Next& next();

// Throws Error(ncclInvalidUsage): the next NCCL has no function of this name.
[[noreturn]] void fail_lacking(const char* name);

// Scope of a call to NCCL on this thread. Calls that come to us inside are NCCL's own: its
// ncclBcast calls its ncclBroadcast, and most of its functions its ncclCommGetAsyncError. Nothing
// else tells that if NCCL lies in a library with others.
class InNccl {
 public:
  InNccl() {
    if (counts_) ++t_depth;
  }
  ~InNccl() {
    if (counts_) --t_depth;
  }
  InNccl(const InNccl&) = delete;
  InNccl& operator=(const InNccl&) = delete;

  static bool here() { return matters() && t_depth > 0; }

 private:
  static bool matters() { return next().library->found.embedded; }

  static inline thread_local int t_depth = 0;
  const bool counts_ = matters();  // a thread's own data costs a call some nanoseconds
};

// Calls a function that the next NCCL may lack.
template <class Function, class... Args>
ncclResult_t call(Function function, const char* name, Args... args) {
  if (function == nullptr) fail_lacking(name);
  const InNccl in_nccl;
  return function(args...);
}

// Notes that NCCL, and not terse, failed last.
ncclResult_t forwarded(ncclResult_t result) noexcept;

// Runs `body`, which returns a result or throws Error, for the function named `call`. Notes terse's
// failures for ncclGetLastError.
ncclResult_t own(const char* call, ncclResult_t (*body)(void*), void* context) noexcept;

template <class Body>
ncclResult_t ours(const char* call, Body&& body) noexcept {
  return own(
      call, [](void* context) { return (*static_cast<Body*>(context))(); }, &body);
}

}  // namespace terse::interpose
