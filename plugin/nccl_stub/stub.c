/* NCCL's functions for the linker's sake. Without nccl.h: all that is said is "there is none". */
static const char kText[] =
    "this build has no NCCL of its own (TERSE_BUILD_HOSTNCCL=OFF), and no other one was found";

/* By what a function returns. */
#define RETURNS_result(name) \
  int name(void) { return 2; /* ncclSystemError */ }
#define RETURNS_number(name) \
  int name(void) { return 0; }
#define RETURNS_nothing(name) \
  void name(void) {}
#define RETURNS_text(name) \
  const char* name(void) { return kText; }

#define NCCL_FUNCTION(name, whose, returns) RETURNS_##returns(name)
#include "interpose/functions.inc"
