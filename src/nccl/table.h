// The entry points of an NCCL library that the engine calls, found at run time. libterse links no
// NCCL: it uses whichever one the program does.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include <string>

namespace terse {

struct NcclTable {
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclCommCount) CommCount;
  decltype(&ncclCommUserRank) CommUserRank;
  decltype(&ncclCommCuDevice) CommCuDevice;
  decltype(&ncclAllReduce) AllReduce;
  decltype(&ncclAllGather) AllGather;
  decltype(&ncclReduceScatter) ReduceScatter;
  decltype(&ncclSend) Send;
  decltype(&ncclRecv) Recv;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
};

// hostnccl's own functions.
struct HostStreamTable {
  decltype(&hostncclStreamCreate) StreamCreate;
  decltype(&hostncclStreamDestroy) StreamDestroy;
  decltype(&hostncclStreamSynchronize) StreamSynchronize;
  decltype(&hostncclStreamQuery) StreamQuery;
  decltype(&hostncclLaunchHostFunc) LaunchHostFunc;
  decltype(&hostncclEventCreate) EventCreate;
  decltype(&hostncclEventDestroy) EventDestroy;
  decltype(&hostncclEventRecord) EventRecord;
  decltype(&hostncclStreamWaitEvent) StreamWaitEvent;
  decltype(&hostncclEventElapsedTime) EventElapsedTime;
};

struct NcclLibrary {
  NcclTable nccl;
  HostStreamTable host;  // complete where `on_host`
  bool on_host = false;  // the library is hostnccl
  std::string path;
};

// Finds the functions in an opened library. Throws Error(ncclSystemError) naming what is missing.
NcclLibrary read_library(void* handle, const char* path);

// The program's NCCL: the path `wanted` if not empty; else the libnccl.so.2 that is loaded already;
// else the loader's libnccl.so.2. Resolved once. Throws Error(ncclSystemError) when there is none.
const NcclLibrary& nccl_library();

// Throws Error(result) with NCCL's own message unless result is ncclSuccess.
void check(const NcclLibrary& library, ncclResult_t result, const char* call);

}  // namespace terse
