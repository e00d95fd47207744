// Communicators on their way in: the ranks compare settings when one is created.
#pragma once

#include <nccl.h>

namespace terse::interpose {

// Those created inside the thread's group, which exist only after NCCL has ended it. Throws Error;
// then all of them are aborted and their handles null.
void admit_pending();
// The same where NCCL is still at it: they are compared later.
void expect_pending();
void forget_pending();

// After the thread's group: frees what its aborts have left, and gives memory back after the last
// communicator.
void reap_ended() noexcept;

}  // namespace terse::interpose
