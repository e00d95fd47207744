// The C interface: version, errors, log, memory, groups.
#include <cstdlib>
#include <cstring>

#include "api.h"

HOSTNCCL_EXPORT(GetVersion);
HOSTNCCL_EXPORT(GetErrorString);
HOSTNCCL_EXPORT(GetLastError);
HOSTNCCL_EXPORT(MemAlloc);
HOSTNCCL_EXPORT(MemFree);
HOSTNCCL_EXPORT(GroupStart);
HOSTNCCL_EXPORT(GroupEnd);
HOSTNCCL_EXPORT(GroupSimulateEnd);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
HOSTNCCL_EXPORT(ResetDebugInit);
#pragma GCC diagnostic pop

using namespace hostnccl;

ncclResult_t ncclGetVersion(int* version) {
  return Guard("ncclGetVersion", [&] {
    RequirePointer(version, "version");
    *version = NCCL_VERSION_CODE;
  });
}

const char* ncclGetErrorString(ncclResult_t result) { return ResultText(result); }

const char* ncclGetLastError(ncclComm_t) { return LastError(); }

void ncclResetDebugInit() { ResetLog(); }

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return Guard("ncclMemAlloc", [&] {
    RequirePointer(ptr, "ptr");
    constexpr size_t kAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;
    const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    *ptr = rounded >= size ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    if (*ptr == nullptr) Fail(ncclSystemError, "cannot allocate {} bytes", size);
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  std::free(ptr);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  Group::Current().Start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return Guard("ncclGroupEnd", [] { return Group::Current().End(); });
}

// There is no model of the network to ask: the estimate is 0. The group ends without a launch.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return Guard("ncclGroupSimulateEnd", [&] {
    Group::Current().Discard();
    if (simInfo == nullptr) return;
    constexpr ncclSimInfo_t kModel = NCCL_SIM_INFO_INITIALIZER;
    Require(simInfo->magic == kModel.magic, ncclInvalidArgument,
            "simInfo was not set to NCCL_SIM_INFO_INITIALIZER");
    if (simInfo->size >= sizeof(kModel)) simInfo->estimatedTime = 0;
  });
}
