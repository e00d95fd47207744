// Notice of the end of another process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

namespace terse {

// Returns the number of this process's PID namespace, alike in all processes of that namespace; 0:
// unknown.
uint64_t process_namespace();

class ProcessWatch {
 public:
  // Calls `ended` once, when the process ends, or at once if there is none. `ended` runs on a
  // thread that all watches share. `ended` must not block, throw, or make or destroy a watch. Has
  // no effect without pidfd_open() (Linux 5.3), without a free descriptor, or while the program
  // exits.
  ProcessWatch(pid_t process, std::function<void()> ended);
  // Returns when `ended` is not running, and will not be called.
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
};

}  // namespace terse
