// Whose failure was the last, NCCL's or ours: ncclGetLastError gives its message. As NCCL's own, it
// is the process's, whatever thread failed.
#pragma once

namespace terse::interpose {

// terse has failed on this thread; its message is terse::last_error().
void we_failed_last() noexcept;

// NCCL has failed in a call that went through us. Failures of calls that did not are seen by the
// change of NCCL's message.
void nccl_failed_last() noexcept;

}  // namespace terse::interpose
