// Parts of communicators that do not block (ncclCommSplit, ncclCommShrink): NCCL writes a part's
// handle some time after the call, and before it says that the parent is no longer in progress.
// What has grown from one (ncclCommGrow) counts as a part.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace terse::interpose {

// Whether the communicator is one that does not block, as its creation has shown. Its parts may be
// in progress also where NCCL returned ncclSuccess for them.
bool is_in_background(ncclComm_t comm);
void note_in_background(ncclComm_t comm);

// What is known of it, and of its parts: it will be gone, or another one has its handle now.
void forget_background(ncclComm_t comm);

struct ChildComm {
  const char* by;  // the function that the program has called for it
  ncclComm_t parent;
  // The program's place, until it is told that the parent is no longer in progress, or uses the
  // part.
  ncclComm_t* comm;
  std::string name, made_from;  // as name_communicator() has them
  bool in_background;           // it does not block
  uint64_t ordinal;             // that this rank proposes, in the program's order
};

// Gives the part its name, and begins its admission: now if its handle is there, or before the
// program is told of the parent, or uses the part.
void register_child(ChildComm part);

// The same of all parts whose handles are there by now, while the program waits for one of them, or
// is told to: that may wait for another rank in this process, or for one that waits for this rank's
// next part. A program that was not told of a child's parent still has its place.
void register_children();

// Before the program's call on a communicator. It may have seen the handle in its place, and never
// ask how far the parent is: where that is a part without a name, it has one from now on.
void claim_child(ncclComm_t comm);

// The same where it is about to be aborted: nothing more is done for the part.
void forget_part(ncclComm_t comm);

}  // namespace terse::interpose
