/* NCCL's functions for the linker's sake. Without nccl.h: all that is said is "there is none". */
#define FAILS(name) \
  int name(void) { return 2; /* ncclSystemError */ }

FAILS(ncclMemAlloc)
FAILS(ncclMemFree)
FAILS(ncclGetUniqueId)
FAILS(ncclCommInitRank)
FAILS(ncclCommInitRankConfig)
FAILS(ncclCommInitRankScalable)
FAILS(ncclCommInitAll)
FAILS(ncclCommSplit)
FAILS(ncclCommShrink)
FAILS(ncclCommFinalize)
FAILS(ncclCommDestroy)
FAILS(ncclCommAbort)
FAILS(ncclCommRevoke)
FAILS(ncclCommGetAsyncError)
FAILS(ncclCommCount)
FAILS(ncclCommCuDevice)
FAILS(ncclCommUserRank)
FAILS(ncclCommRegister)
FAILS(ncclCommDeregister)
FAILS(ncclCommWindowRegister)
FAILS(ncclCommWindowDeregister)
FAILS(ncclRedOpCreatePreMulSum)
FAILS(ncclRedOpDestroy)
FAILS(ncclAllReduce)
FAILS(ncclReduce)
FAILS(ncclBroadcast)
FAILS(ncclBcast)
FAILS(ncclReduceScatter)
FAILS(ncclAllGather)
FAILS(ncclAlltoAll)
FAILS(ncclGather)
FAILS(ncclScatter)
FAILS(ncclSend)
FAILS(ncclRecv)
FAILS(ncclGroupStart)
FAILS(ncclGroupEnd)
FAILS(ncclGroupSimulateEnd)
FAILS(ncclGetVersion)

static const char kText[] =
    "this build has no NCCL of its own (TERSE_BUILD_HOSTNCCL=OFF), and no other one was found";
const char* ncclGetErrorString(int result) {
  (void)result;
  return kText;
}
const char* ncclGetLastError(void* comm) {
  (void)comm;
  return "";
}
