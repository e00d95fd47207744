// Group of a thread, of which NCCL has one part and the engine another.
#pragma once

namespace terse::interpose {

// Fails the thread's group with the exception being handled; does nothing outside of a group. As
// with NCCL's own calls, nothing of the group runs, and its end returns the error.
void fail_group() noexcept;

}  // namespace terse::interpose
