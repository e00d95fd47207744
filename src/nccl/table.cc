#include "nccl/table.h"

#include <atomic>

#include "base/error.h"
#include "base/first_made.h"
#include "base/log.h"

namespace terse {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  return nccl_function(handle, name, function);
}

// Finds all functions. Returns the name of the first one that is missing but may not be; null if
// there is none.
const char* find_all(void* handle, NcclTable& t) {
  find(handle, "ncclGetLastError", t.GetLastError);  // since 2.13
#define NCCL_COLLECTIVE(suffix, ...) find(handle, "nccl" #suffix, t.suffix);
#include <nccl_collectives.inc>
  const struct {
    const char* name;
    bool found;
  } entries[] = {
      {"ncclCommCount", find(handle, "ncclCommCount", t.CommCount)},
      {"ncclCommUserRank", find(handle, "ncclCommUserRank", t.CommUserRank)},
      {"ncclCommCuDevice", find(handle, "ncclCommCuDevice", t.CommCuDevice)},
      {"ncclCommGetAsyncError", find(handle, "ncclCommGetAsyncError", t.CommGetAsyncError)},
      {"ncclAllReduce", t.AllReduce != nullptr},
      {"ncclAllGather", t.AllGather != nullptr},
      {"ncclReduceScatter", t.ReduceScatter != nullptr},
      {"ncclSend", t.Send != nullptr},
      {"ncclRecv", t.Recv != nullptr},
      {"ncclGroupStart", find(handle, "ncclGroupStart", t.GroupStart)},
      {"ncclGroupEnd", find(handle, "ncclGroupEnd", t.GroupEnd)},
  };
  for (const auto& e : entries)
    if (!e.found) return e.name;
  return nullptr;
}

bool find_host(void* handle, HostStreamTable& t) {
  return find(handle, "hostncclStreamCreate", t.StreamCreate) &&
         find(handle, "hostncclStreamDestroy", t.StreamDestroy) &&
         find(handle, "hostncclStreamSynchronize", t.StreamSynchronize) &&
         find(handle, "hostncclStreamQuery", t.StreamQuery) &&
         find(handle, "hostncclLaunchHostFunc", t.LaunchHostFunc) &&
         find(handle, "hostncclCommFail", t.CommFail) &&
         find(handle, "hostncclEventCreate", t.EventCreate) &&
         find(handle, "hostncclEventDestroy", t.EventDestroy) &&
         find(handle, "hostncclEventRecord", t.EventRecord) &&
         find(handle, "hostncclStreamWaitEvent", t.StreamWaitEvent) &&
         find(handle, "hostncclEventElapsedTime", t.EventElapsedTime);
}

}  // namespace

NcclLibrary read_library(FoundNccl found) {
  NcclLibrary library{};
  library.found = std::move(found);
  const std::string& path = library.found.path;
  if (const char* missing = find_all(library.found.handle, library.nccl))
    fail(ncclSystemError, "{} has no {}", path, missing);
  library.on_host = find_host(library.found.handle, library.host);
  log(LogLevel::kInfo, "using {} ({})", path, library.on_host ? "hostnccl" : "on a GPU");
  return library;
}

const NcclLibrary& nccl_library(const std::string& path) {
  static constinit std::atomic<const NcclLibrary*> place{nullptr};
  return first_made(place, [&] { return read_library(find_nccl(path)); });
}

std::string version(const NcclLibrary& library) {
  decltype(&ncclGetVersion) get;
  int code = 0;
  if (!nccl_function(library.found.handle, "ncclGetVersion", get) || get(&code) != ncclSuccess)
    return "of unknown version";
  // Up to 2.8 the code had a digit less.
  if (code < 10000) return fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

void check(const NcclLibrary& library, ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  const char* detail = library.nccl.GetLastError ? library.nccl.GetLastError(nullptr) : nullptr;
  fail(result, "{} gave {}{}{}", call, result_name(result),
       detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "");
}

void check_begun(const NcclLibrary& library, ncclResult_t result, const char* call) {
  if (result != ncclInProgress) check(library, result, call);
}

}  // namespace terse
