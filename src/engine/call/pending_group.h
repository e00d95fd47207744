// The engine's front door: what a call needs done, now or at the end of the thread's group.
#pragma once

#include "engine/call/route.h"
#include "engine/run/executor.h"

namespace terse {

// Compresses the call with the scheme if it can be, or hands it to NCCL and counts why not. Inside
// a group both happen at the outermost group_end(). Throws Error, also for no scheme.
void submit(const Request& request, const Scheme* scheme, const Settings& settings);
inline void submit(const Request& request, const Scheme& scheme, const Settings& settings) {
  submit(request, &scheme, settings);
}

// The same for a call of which it is decided that it is compressed; or that is a message of a group
// which goes to NCCL as it is, but in the order of the group's other messages, and is counted.
void submit(Communicator& communicator, const Request& request, const Route& way);

// The same in a group for a call that needs_topology(): the ranks tell each other at the group's
// end, and then it is decided on.
void defer(Communicator& communicator, const Request& request);

void group_start();
int group_depth();
void group_abandon();  // forgets the thread's group

// Calls of a group that are not made for another one's sake.
enum class FailureScope {
  kPending,  // those that waited for its end, or until NCCL got them
  kAll,      // those that NCCL had besides, too
};

// Forgets the thread's group where other ranks may make calls of it: breaks off the communicators
// of those that are lost. Not those of which a call was refused, for that is so on all their ranks;
// and none where an argument cannot be right: without terse NCCL would have dropped the group, too.
void group_abandon(const std::exception& cause, FailureScope lost) noexcept;

// A call of the thread's group, if there is one, is refused before anything has come of it: on all
// ranks, but for a message, which only two of them have.
void group_refuses(const Request& request);

// The thread's group has a call besides, which NCCL has got.
void group_has(const CommunicatorPointer& communicator, Stream stream);

// Before NCCL's own group ends, where calls of the group are its: the streams meet. Throws Error.
void group_meet();

// Whether a call that waits for the end of the thread's group reduces by the operator.
bool group_reduces_by(ncclComm_t comm, ncclRedOp_t op);

// After NCCL's own group with the group's native calls gave `result`: waits until that is enqueued
// on the non-blocking communicators that the group's compressed calls use.
void group_settle(ncclResult_t result);

// Calls NCCL, whose own group is to be open, for what the thread's group has so far, natively.
void group_hand_over();

// The same where that is right: a group of native messages alone is NCCL's as it is. With anything
// else in it, which its peers may have in groups that are compressed, a message keeps its place
// after that: what NCCL has in its own group comes first, then what is compressed, with the
// messages.
void group_hand_over_messages();

// Throws the group's first error; then nothing of the group was enqueued.
void group_end();

}  // namespace terse
