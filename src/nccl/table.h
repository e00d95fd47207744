// The entry points of an NCCL library that the engine calls, found at run time. libterse links no
// NCCL: it uses whichever one the program does.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include <string>

#include "nccl/find.h"

namespace terse {

// NOLINTBEGIN(readability-identifier-naming): NCCL's names, without its prefix.
struct NcclTable {
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclCommCount) CommCount;
  decltype(&ncclCommUserRank) CommUserRank;
  decltype(&ncclCommCuDevice) CommCuDevice;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
  // Null where the library lacks one of those that came with NCCL 2.7 and 2.28.
#define NCCL_COLLECTIVE(suffix, ...) decltype(&nccl##suffix) suffix;
#include <nccl_collectives.inc>
};

// hostnccl's own functions.
struct HostStreamTable {
  decltype(&hostncclStreamCreate) StreamCreate;
  decltype(&hostncclStreamDestroy) StreamDestroy;
  decltype(&hostncclStreamSynchronize) StreamSynchronize;
  decltype(&hostncclStreamQuery) StreamQuery;
  decltype(&hostncclLaunchHostFunc) LaunchHostFunc;
  decltype(&hostncclCommFail) CommFail;
  decltype(&hostncclEventCreate) EventCreate;
  decltype(&hostncclEventDestroy) EventDestroy;
  decltype(&hostncclEventRecord) EventRecord;
  decltype(&hostncclStreamWaitEvent) StreamWaitEvent;
  decltype(&hostncclEventElapsedTime) EventElapsedTime;
};
// NOLINTEND(readability-identifier-naming)

struct NcclLibrary {
  NcclTable nccl;
  HostStreamTable host;  // complete where `on_host`
  bool on_host = false;  // the library is hostnccl
  FoundNccl found;
};

// Finds the functions in a library. Throws Error(ncclSystemError) naming what is missing.
NcclLibrary read_library(FoundNccl found);

// The NCCL at this path, or the program's (find.h) where it is empty. Resolved once, by the first
// call's path. Throws Error(ncclSystemError) when there is none.
const NcclLibrary& nccl_library(const std::string& path);

// "2.28.9"
std::string version(const NcclLibrary& library);

// Throws Error(result) with NCCL's own message unless result is ncclSuccess.
void check(const NcclLibrary& library, ncclResult_t result, const char* call);

// Checks a call within an NCCL group, which may also be in progress.
void check_begun(const NcclLibrary& library, ncclResult_t result, const char* call);

}  // namespace terse
