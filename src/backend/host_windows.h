// Windows of hosts: shared memory of the ranks of one machine, whether processes or threads.
#pragma once

#include <memory>

#include "backend/windows.h"

namespace terse {

// Has the process's peers learn of its end, from when on no call is made. Before the first windows.
void leave_windows_at_exit();

// Areas have a multiple of 256 bytes. Throws Error where there is no memory.
std::unique_ptr<Windows> make_host_windows(const WindowRequest& request);

// Does a fused call on host windows, waiting for the peers. If calls differ, or a wait is in vain,
// it writes no result and calls call.failed(), as do all later calls on these windows.
void run(const FusedCall& call);

}  // namespace terse
