// Assembler names of our functions in functions.inc, by which the entries (entries.S) reach them:
// NCCL's names belong to the entries. Included before any use of those functions.
#pragma once

#include <nccl.h>
#include <nccl_config.h>

// Declared here, as NCCL has it since 2.29.
extern "C" ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                                     ncclComm_t* made, ncclConfig_t* config);

#define TERSE_NAME_OF_ours(name) extern "C" decltype(name) name __asm__("terse_own_" #name);
#define TERSE_NAME_OF_next(name)
#define TERSE_NAME_OF_inner(name)
#define NCCL_FUNCTION(name, whose, returns) TERSE_NAME_OF_##whose(name)
#include "interpose/functions.inc"
#undef NCCL_FUNCTION
#undef TERSE_NAME_OF_ours
#undef TERSE_NAME_OF_next
#undef TERSE_NAME_OF_inner
