// What a new communicator needs before a program may use it: its ranks compare their settings. One
// that NCCL makes in the background has that done there, too, by a thread of ours that waits for
// NCCL; the program hears that it is in progress until then. So whatever calls a program makes
// first, the ranks have met before, and a rank that makes none holds up no other.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace terse::interpose {

// Whether terse does nothing on any communicator, as nothing is compressed and there is no backend
// by which to say so.
bool lacks_backend();

// Of communicators that NCCL has made. Blocks. Throws Error; then none of them is good.
void finish_init(std::span<const ncclComm_t> comms);

// Begins that of one that NCCL may still be at; `by`: the function that the program has called for
// it. `parent`: that it is a part of, whose state the program asks for; null: none. `ordinal`: that
// this rank proposes, if it may be the first one, which numbers the communicator.
void begin_init(ncclComm_t comm, const char* by, ncclComm_t parent,
                std::optional<uint64_t> ordinal);

// Whether there is one under way, or one that has failed.
bool has_inits() noexcept;

// Whether the communicator's own admission is under way. Then a thread of ours asks NCCL how far it
// is, and no other one may: NCCL's ncclCommGetAsyncError also frees what is over, and two threads
// in it would both.
bool is_initializing(ncclComm_t comm) noexcept;

// What the program is to hear of a communicator that NCCL has made, before what NCCL says:
// ncclInProgress where its admission is under way, or that of a part of it, or what that has failed
// with, which NCCL's errors may follow from. ncclSuccess: what NCCL says.
ncclResult_t init_state(ncclComm_t comm) noexcept;

// Before a call on the communicator, which a program may make without asking: throws Error where
// NCCL has not made it yet, as NCCL refuses such a call, for a rank may never come.
void require_made(ncclComm_t comm);

// The same, and blocks until it is admitted. Throws Error where it could not be.
void require_initialized(ncclComm_t comm);

// The same, and blocks until its admission is over, however it ended.
void wait_for_init(ncclComm_t comm);

// The program goes on with what is made of the communicator, and what NCCL says is about that: what
// its admission has failed with only its calls tell from now on.
void suppress_init_error(ncclComm_t comm) noexcept;

// The thread of an admission that has failed or was given up; it ends when this goes. NCCL (2.19 to
// 2.26) may keep what it did for the communicator in that thread's memory, and comes back to it
// when it ends the communicator: so this is to outlast that. Null: there is no such thread.
using InitThread = std::shared_ptr<const void>;

// The communicator is revoked, or about to go: blocks until its admission is over, and nothing is
// left of that but its thread.
[[nodiscard]] InitThread end_init(ncclComm_t comm);

// It is about to be aborted: what waits for other ranks gives up. Blocks until then, unless that
// waits inside of NCCL, which only NCCL's abort ends.
[[nodiscard]] InitThread abort_init(ncclComm_t comm);

}  // namespace terse::interpose
