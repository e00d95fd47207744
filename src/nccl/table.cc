#include "nccl/table.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/log.h"
#include "policy/settings.h"

namespace terse {
namespace {

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

const char* first_missing(void* handle, NcclTable& t) {
  const struct {
    const char* name;
    bool found;
  } entries[] = {
      {"ncclGetLastError", find(handle, "ncclGetLastError", t.GetLastError)},
      {"ncclCommCount", find(handle, "ncclCommCount", t.CommCount)},
      {"ncclCommUserRank", find(handle, "ncclCommUserRank", t.CommUserRank)},
      {"ncclCommCuDevice", find(handle, "ncclCommCuDevice", t.CommCuDevice)},
      {"ncclAllReduce", find(handle, "ncclAllReduce", t.AllReduce)},
      {"ncclAllGather", find(handle, "ncclAllGather", t.AllGather)},
      {"ncclReduceScatter", find(handle, "ncclReduceScatter", t.ReduceScatter)},
      {"ncclSend", find(handle, "ncclSend", t.Send)},
      {"ncclRecv", find(handle, "ncclRecv", t.Recv)},
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
         find(handle, "hostncclEventCreate", t.EventCreate) &&
         find(handle, "hostncclEventDestroy", t.EventDestroy) &&
         find(handle, "hostncclEventRecord", t.EventRecord) &&
         find(handle, "hostncclStreamWaitEvent", t.StreamWaitEvent) &&
         find(handle, "hostncclEventElapsedTime", t.EventElapsedTime);
}

constexpr const char* kSoname = "libnccl.so.2";

NcclLibrary open_library() {
  const std::string& wanted = settings().nccl;
  if (!wanted.empty()) {
    void* handle = dlopen(wanted.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) fail(ncclSystemError, "TERSE_NCCL: {}", dlerror());
    return read_library(handle, wanted.c_str());
  }
  void* handle = dlopen(kSoname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(kSoname, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    fail(ncclSystemError, "no NCCL was found: {}; set TERSE_NCCL to its path", dlerror());
  return read_library(handle, kSoname);
}

}  // namespace

NcclLibrary read_library(void* handle, const char* path) {
  NcclLibrary library{};
  library.path = path;
  if (const char* missing = first_missing(handle, library.nccl))
    fail(ncclSystemError, "{} has no {}", path, missing);
  library.on_host = find_host(handle, library.host);
  log(LogLevel::kInfo, "using {} ({})", path, library.on_host ? "hostnccl" : "on a GPU");
  return library;
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_library();
  return library;
}

void check(const NcclLibrary& library, ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  const char* detail = library.nccl.GetLastError(nullptr);
  fail(result, "{} gave {}{}{}", call, result_name(result),
       detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "");
}

}  // namespace terse
