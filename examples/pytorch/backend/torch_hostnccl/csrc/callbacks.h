// Threads that tell futures that they are done. What waits for a future may be called by another
// future's callback, as in DDP's hooks: no callback ever waits for a thread that runs another.
#pragma once

#include <functional>

namespace torch_hostnccl {

void run_callback(std::function<void()> callback);

}  // namespace torch_hostnccl
