// Owner of the last failure, NCCL or terse, for ncclGetLastError. Process-wide, as NCCL's own.
#pragma once

namespace terse::interpose {

// Notes a failure of terse's on this thread; its message is terse::last_error().
void we_failed_last() noexcept;

// Notes a failure of NCCL's in a call that went through us. Failures in other calls are seen by the
// change of NCCL's message.
void nccl_failed_last() noexcept;

}  // namespace terse::interpose
