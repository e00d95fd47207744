/* A library that calls NCCL while it is loaded, or only looks it up: a while after its loading has
   begun, so that another thread can come between. */
#include <dlfcn.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int constructed = 0;

__attribute__((constructor)) static void construct(void) {
  int version = 0;
  sleep(1);
  const char* const makes = getenv("CONSTRUCTOR_MAKES");
  if (makes != NULL) {
    ncclComm_t comm;
    ncclUniqueId id = {{0}};
    if (strcmp(makes, "another") == 0) ncclGetUniqueId(&id);
    constructed = ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess;
  } else if (getenv("CONSTRUCTOR_LOOKS_UP") != NULL) {
    void* const nccl = dlopen("libnccl.so.2", RTLD_NOW);
    constructed = nccl != NULL && dlsym(nccl, "ncclAllReduce") != NULL;
  } else {
    constructed = ncclGetVersion(&version) == ncclSuccess && version != 0;
  }
}
