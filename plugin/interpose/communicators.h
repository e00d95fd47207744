// Creation of communicators, at which ranks compare settings.
#pragma once

#include <nccl.h>

namespace terse::interpose {

// Initializes those created inside the thread's group, which exist after NCCL has ended it. Throws
// Error; then all of them are aborted and their handles null.
void admit_pending();
// Begins the initialization of those that NCCL is still making.
void expect_pending();
void forget_pending();

// Frees what the thread's aborts have left, after its group, and gives memory back after the last
// communicator.
void reap_ended() noexcept;

}  // namespace terse::interpose
