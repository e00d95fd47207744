// Threads that belong to the library, not to a call: they are told to stop and joined when the
// process exits, before the libraries they use take themselves down.
#pragma once

#include <functional>
#include <memory>

namespace hostnccl {

class Flag;

// Runs `work` on a thread of its own. `stop` is kept until the work returns and raised at process
// exit: the work must then return soon.
void run_in_background(std::shared_ptr<Flag> stop, std::function<void()> work);

// True once process exit has begun.
bool is_exiting();

}  // namespace hostnccl
