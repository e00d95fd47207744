// Parts of communicators that do not block (ncclCommSplit, ncclCommShrink): NCCL writes a part's
// handle some time after the call, and before it says that the whole is no longer in progress. What
// has grown from one (ncclCommGrow) counts as a part.
#pragma once

#include <nccl.h>

#include <string>

namespace terse::interpose {

// Whether the communicator is one that does not block, as its creation has shown. Its parts may be
// in progress also where NCCL returned ncclSuccess for them.
bool is_in_background(ncclComm_t comm);
void note_in_background(ncclComm_t comm);

// What is known of it, and of its parts: it will be gone, or another one has its handle now.
void forget_background(ncclComm_t comm);

struct Part {
  const char* by;  // the function that the program has called for it
  ncclComm_t whole;
  ncclComm_t* comm;  // the program's, until it is told that the whole is no longer in progress
  std::string name, made_from;  // as name_communicator() has them
  bool in_background;           // it does not block
};

// Gives the part its name, and begins its admission: now if its handle is there, or before the
// program is told.
void name_part(Part part);

}  // namespace terse::interpose
