/* An NCCL of long ago: what libterse needs and no more. No function does anything. */
#define SUCCEEDS(name) \
  int name(void) { return 0; }

SUCCEEDS(ncclCommInitRank)
SUCCEEDS(ncclCommCount)
SUCCEEDS(ncclCommUserRank)
SUCCEEDS(ncclCommCuDevice)
SUCCEEDS(ncclCommGetAsyncError)
SUCCEEDS(ncclAllReduce)
SUCCEEDS(ncclAllGather)
SUCCEEDS(ncclReduceScatter)
SUCCEEDS(ncclSend)
SUCCEEDS(ncclRecv)
SUCCEEDS(ncclGroupStart)
SUCCEEDS(ncclGroupEnd)

int ncclGetVersion(int* version) {
  *version = 21005;
  return 0;
}

#ifdef BEFORE_LAST_ERROR
int ncclBroadcast(void) { return 4; }
#else
static const char* g_message = "";
const char* ncclGetLastError(void* comm) {
  (void)comm;
  return g_message;
}

/* Fails as NCCL does: with a message for the whole process. */
int ncclBroadcast(const char* message) {
  g_message = message;
  return 4;
}
#endif

#ifdef FREES_WHAT_LIBC_ALLOCATES
/* As NCCL's hash of a host does. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void identify(void) {
  char* word = NULL;
  FILE* const file = fopen("/proc/self/stat", "r");
  if (file != NULL && fscanf(file, "%ms", &word) == 1) free(word);
  if (file != NULL) fclose(file);
}
#endif
