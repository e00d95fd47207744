// Children of communicators that do not block (ncclCommSplit, ncclCommShrink, ncclCommGrow): NCCL
// writes a child's handle some time after the call, before it says that the parent is no longer in
// progress.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace terse::interpose {

// Returns true if the communicator was created not to block. Its children may be in progress even
// if NCCL returned ncclSuccess for them.
bool is_in_background(ncclComm_t comm);
void note_in_background(ncclComm_t comm);

// Forgets it and its children: it will be gone, or another one has its handle now.
void forget_background(ncclComm_t comm);

struct ChildComm {
  const char* by;  // function that the program has called
  ncclComm_t parent;
  // Place of the program's for the handle, valid until it is told that the parent is no longer in
  // progress, or uses the child.
  ncclComm_t* comm;
  std::string name, made_from;  // as name_communicator() has them
  bool in_background;           // it does not block
  uint64_t ordinal;             // proposed by this rank, in the program's order
};

// Names the child and begins its initialization: now if its handle is there, or before the program
// is told of the parent or uses the child.
void register_child(ChildComm part);

// Registers all children whose handles are there, while the program waits for one: that may wait
// for another rank of this process, or for a rank that waits for this rank's next child. The place
// of a child whose parent the program was not told of is valid.
void register_children();

// Registers a child before the program's call on it: the program may have seen the handle in its
// place, and never asked for the parent's state.
void claim_child(ncclComm_t comm);

// Forgets a child that is about to be aborted.
void forget_part(ncclComm_t comm);

}  // namespace terse::interpose
