// Child process, for a program that `terse` outlives.
#pragma once

#include <string>
#include <vector>

namespace terse::cli {

// Runs a program to its end, and returns its status as wait() has it. Forwards signals to this
// process alone (most of a terminal's reach both); if this process is killed, so is the child. As
// with become(), a program that cannot be started has a shell's exit status.
int run_child(std::vector<std::string> command);

// Exit status by which this process ends as another has ended; dies by the same signal.
int end_like(int waited);

}  // namespace terse::cli
