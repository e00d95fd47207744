// Threads that tell futures that they are done. What waits for a future may be called by another
// future's callback, as in DDP's hooks: no callback ever waits for a thread that runs another.
#pragma once

#include <functional>

namespace torch_hostnccl {

void run_callback(std::function<void()> callback);
// Until none is left of those that were begun: a thread that asks for Python's lock while Python
// goes ends the process by abort(). Whether that was so within that time.
bool wait_for_callbacks(double seconds);
bool in_callback();  // whether this thread runs one

// An environment variable: 1 if futures are to be complete when a program gets them, as
// ProcessGroupNCCL's are, so that it runs their callbacks itself. Calls then don't overlap with
// what the program does before it asks for their futures.
constexpr const char* kInOrder = "TORCH_HOSTNCCL_FUTURES_IN_ORDER";
bool futures_in_order();

}  // namespace torch_hostnccl
