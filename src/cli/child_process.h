// A program that `terse` stays beside, in place of becoming it.
#pragma once

#include <string>
#include <vector>

namespace terse::cli {

// Runs a program as a child to its end, which wait() says. Signals to this process alone go on to
// it (most of a terminal's reach both anyway); where this process is killed, so is it. As
// with become(), a program that cannot be started is an exit status of a shell's.
int run_child(std::vector<std::string> command);

// The exit status, for this process to end as another has ended; where that died by a signal, so
// does this.
int end_like(int waited);

}  // namespace terse::cli
