// Programs that `terse` becomes.
#pragma once

#include <string>
#include <vector>

namespace terse::cli {

// A file of this installation, whose bin/ this program lies in. Throws Error where it is not there.
std::string installed(const char* name);
bool is_installed(const char* name);

// Returns only where that cannot be: the exit status, as a shell has it.
int become(std::vector<std::string> command);

}  // namespace terse::cli
