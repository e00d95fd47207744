// Communicators of this process: made, found, released and aborted.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// Returns the engine's state of `comm`, made at its first use with these settings, which last as
// long as the process. Recognises by rank or size a handle that NCCL has given to another
// communicator after a destroy without terseCommRelease.
CommunicatorPointer communicator(ncclComm_t comm, const Settings& settings);

// Returns null if there is none.
CommunicatorPointer find_communicator(ncclComm_t comm);

// Returns true if NCCL knows the handle, also one without a state.
bool exists(ncclComm_t comm, const Settings& settings);

// Throws Error(ncclInvalidArgument) if exists() is false.
void require_exists(ncclComm_t comm, const Settings& settings);

// Notes the program's name of a communicator (ncclConfig_t.commName; null: none), between the begin
// of its creation and its first agreement, which compares names if the policy goes by them.
// `made_from`: name of the communicator it was split or has grown from, by which reports call it if
// it has none.
void name_communicator(ncclComm_t comm, const char* name, std::string made_from = "");

// Name of the communicator; "": none.
std::string name_of_communicator(ncclComm_t comm);
// First name of a communicator of this process for which is_so(name); "": none.
std::string find_name(bool (*is_so)(std::string_view));
// Name for communicators made from it: its own, or that of the one it was made from.
std::string family_of_communicator(ncclComm_t comm);

// Frees the state after waiting for its lanes; does nothing if there is none. `abandon`: ignores
// errors of what is queued. If NCCL has failed, and lanes may wait for ever, keeps the state as
// abort_communicator() does, with which another thread may end the wait.
void release_communicator(ncclComm_t comm, bool abandon);

// Gives up the state of a communicator that is about to be aborted, also one being released: waits
// in it throw, and NCCL is not asked about it any more. Does not free it, for another thread may be
// in it, and its work may wait until NCCL has aborted the communicator, or for ever.
void abort_communicator(ncclComm_t comm);

// Frees the given-up states whose work has ended, as after NCCL has aborted their communicators;
// waits for that briefly. Creation, release and abort do the same without waiting.
void reap_communicators() noexcept;

// Returns the memory of freed states to the machines, once no state is left. NCCL may have
// registered it with other ranks' processes: called after their communicators' own end, if that is
// known.
void give_memory_back() noexcept;

}  // namespace terse
