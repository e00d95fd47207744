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
  return guard("ncclGetVersion", [&] {
    require_pointer(version, "version");
    *version = NCCL_VERSION_CODE;
  });
}

const char* ncclGetErrorString(ncclResult_t result) { return result_text(result); }

const char* ncclGetLastError(ncclComm_t) { return last_error(); }

void ncclResetDebugInit() { reset_log(); }

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return guard("ncclMemAlloc", [&] {
    require_pointer(ptr, "ptr");
    constexpr size_t kAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;
    const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    *ptr = rounded >= size ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    if (*ptr == nullptr) fail(ncclSystemError, "cannot allocate {} bytes", size);
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  std::free(ptr);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  Group::current().start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return guard("ncclGroupEnd", [] { return Group::current().end(); });
}

// Ends the group without a launch. The estimate is 0, for there is no model of the network.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return guard("ncclGroupSimulateEnd", [&] {
    Group::current().discard();
    if (info == nullptr) return;
    constexpr ncclSimInfo_t kModel = NCCL_SIM_INFO_INITIALIZER;
    require(info->magic == kModel.magic, ncclInvalidArgument,
            "simInfo was not set to NCCL_SIM_INFO_INITIALIZER");
    if (info->size >= sizeof(kModel)) info->estimatedTime = 0;
  });
}
