// Calls of the thread's group, and calls outside of a group: what is compressed, and when.
#pragma once

#include "engine/call/route.h"
#include "engine/run/executor.h"

namespace terse {

// Compresses the call with the scheme if it can be, or hands it to NCCL and counts the reason.
// Inside a group both happen at the outermost group_end(). Throws Error, also for an invalid
// scheme.
void submit(ncclComm_t comm, const Request& request, const Scheme* scheme,
            const Settings& settings);
inline void submit(ncclComm_t comm, const Request& request, const Scheme& scheme,
                   const Settings& settings) {
  submit(comm, request, &scheme, settings);
}

// Submits a call that will be compressed; or a message of a group that goes to NCCL as it is, in
// the order of the group's other messages, and is counted.
void submit(Communicator& communicator, const Request& request, const Route& route);

// Defers a call that needs_topology() to the end of the group, where the ranks exchange it and the
// call is decided on.
void defer(Communicator& communicator, const Request& request);

void group_start();
int group_depth();
void group_abandon();  // forgets the thread's group

// Calls of a group that fail with another call.
enum class FailureScope {
  kPending,  // those pending at the group's end, or until NCCL got them
  kAll,      // those, and the ones that NCCL has
};

// Forgets the thread's group and poisons the communicators of calls that other ranks may make.
// Spares communicators with a refused call, which is refused on all ranks; and all of them if an
// argument is invalid, for NCCL would have dropped the group, too.
void group_abandon(const std::exception& cause, FailureScope scope) noexcept;

// Notes a call that is refused before anything has come of it: on all ranks, but for a message,
// which two ranks have.
void group_note_refusal(ncclComm_t comm, const Request& request);

// Notes a call of the thread's group that NCCL has got.
void group_add_native(const CommunicatorPointer& communicator, Stream stream);

// Makes the group's streams meet, before NCCL's own group ends with calls of this one. Throws
// Error.
void group_join_streams();

// Returns true if a pending call of the group reduces by the operator.
bool group_reduces_by(ncclComm_t comm, ncclRedOp_t op);

// Waits after NCCL's own group with the group's native calls gave `result`: until that is enqueued
// on the non-blocking communicators of the group's compressed calls.
void settle_group(ncclResult_t result);

// Calls NCCL, whose own group is open, natively for the group's calls so far.
void group_call_nccl();

// Calls group_call_nccl() for a group of native messages alone. In other groups, which peers may
// have with compressed calls, a message keeps its place: NCCL's own group first, then what is
// compressed, with the messages.
void group_call_nccl_for_messages();

// Throws the group's first error; then nothing of the group was enqueued.
void group_end();

}  // namespace terse
