// The communicators of this process: made, found, released and aborted.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// The engine's state of `comm`, made at its first use with these settings, which last as long as
// the process. A communicator that was destroyed without terseCommRelease and whose address another
// one has taken is recognised where rank or size differ.
CommunicatorPointer communicator(ncclComm_t comm, const Settings& settings);

// Null where there is none.
CommunicatorPointer find_communicator(ncclComm_t comm);

// Whether there is such a communicator, also one without a state: as NCCL says, which refuses the
// handle of one that was destroyed.
bool exists(ncclComm_t comm, const Settings& settings);

// Throws Error(ncclInvalidArgument) where there is none.
void require_exists(ncclComm_t comm, const Settings& settings);

// Says how the program has named a communicator (ncclConfig_t.commName; null: not at all): between
// its creation, or the beginning of it, and its first agreement, at which a policy that goes by
// names compares them. `made_from`: the name of the one that it was split or has grown from, by
// which reports call it where it has none.
void name_communicator(ncclComm_t comm, const char* name, std::string made_from = "");

// What was said of it; "": nothing.
std::string name_of_communicator(ncclComm_t comm);
// By which those made from it are called: its name, or that of the one it was made from.
std::string family_of_communicator(ncclComm_t comm);

// Frees the state, after waiting for the lanes; nothing where there is none. With `abandon`, errors
// of what is still queued are of no interest. Where NCCL has failed, so that the lanes may wait for
// ever, the state is kept, as by abort_communicator(), with which another thread may end the wait.
void release_communicator(ncclComm_t comm, bool abandon);

// Gives up the state of a communicator that is about to be aborted, or also being released: what
// waits in it throws, and NCCL is not asked about it any more. It is not freed yet, for another
// thread may be in it, and what it has enqueued may wait until NCCL has aborted the communicator,
// or for ever.
void abort_communicator(ncclComm_t comm);

// Frees the states that were given up and whose work has ended, as after NCCL has aborted their
// communicators; waits for that a little while. It also happens, without waiting, where
// communicators are made, released and aborted.
void reap_communicators() noexcept;

// Gives back to the machines what the states that were freed had, once there are none left. NCCL
// may have registered that memory with other ranks' processes: so it comes after their
// communicators' own end, where that is known.
void give_memory_back() noexcept;

}  // namespace terse
