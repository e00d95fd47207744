// Initialization of a new communicator: its ranks compare their settings before a program may use
// it. For a communicator that NCCL makes in the background a thread of ours waits for NCCL and
// compares; until then the program is told ncclInProgress. So ranks have met whatever call comes
// first, and a rank without calls holds up no other.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace terse::interpose {

// Returns true if terse does nothing on any communicator, as nothing is compressed and there is no
// backend.
bool lacks_backend();

// Initializes communicators that NCCL has made. Blocks. Throws Error; then none of them is usable.
void finish_init(std::span<const ncclComm_t> comms);

// Begins the initialization of a communicator that NCCL may still be making. `by`: function that
// the program has called; `parent`: communicator it is made of, whose state the program asks for,
// or null; `ordinal`: proposed by this rank if it may be rank 0, which numbers the communicator.
void begin_init(ncclComm_t comm, const char* by, ncclComm_t parent,
                std::optional<uint64_t> ordinal);

// Returns true if an initialization is under way, or has failed.
bool has_inits() noexcept;

// Returns true if the communicator's own initialization is under way. Its thread alone asks NCCL
// for the state then: ncclCommGetAsyncError also frees what has ended, and two threads would both.
bool is_initializing(ncclComm_t comm) noexcept;

// State of a communicator that NCCL has made, which precedes NCCL's answer: ncclInProgress while it
// or a child of it is being initialized, or the error of its initialization, from which NCCL's
// errors may follow. ncclSuccess: NCCL answers.
ncclResult_t init_state(ncclComm_t comm) noexcept;

// Throws Error before a call on a communicator that NCCL has not made yet, as NCCL refuses such a
// call: a rank may never come.
void require_made(ncclComm_t comm);

// require_made(), and blocks until it is initialized. Throws Error if that failed.
void require_initialized(ncclComm_t comm);

// require_made(), and blocks until its initialization has ended, however.
void wait_for_init(ncclComm_t comm);

// Hides the initialization's error from the communicator's state, as the program goes on with what
// NCCL makes of it; calls still fail.
void suppress_init_error(ncclComm_t comm) noexcept;

// Thread of an initialization that failed or was aborted; it ends with the last reference. NCCL
// 2.19 to 2.26 may keep the communicator's job in that thread's memory until it ends the
// communicator: hold this until then. Null: no such thread.
using InitThread = std::shared_ptr<const void>;

// Waits for the end of the initialization and forgets it, before a revoke or the communicator's
// end.
[[nodiscard]] InitThread end_init(ncclComm_t comm);

// Ends waits for other ranks before an abort. Blocks until they have ended, unless a wait is inside
// NCCL, which only NCCL's abort ends.
[[nodiscard]] InitThread abort_init(ncclComm_t comm);

}  // namespace terse::interpose
