// Programs that `terse` executes in its place.
#pragma once

#include <string>
#include <vector>

namespace terse::cli {

// File of this installation, whose bin/ this program lies in. Throws Error if it is missing.
std::string installed(const char* name);
bool is_installed(const char* name);

// Executes a program in place of this one. Returns only if that fails: the exit status, as a shell
// has it.
int become(std::vector<std::string> command);

}  // namespace terse::cli
