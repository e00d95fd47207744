// The project's kernels as machine code: what disassemble.py has listed.
#pragma once

#include <string>
#include <vector>

#include "machine_code/program.h"

namespace terse::machine {

// Where the listings of one architecture are: TERSE_MACHINE_CODE.
const std::string& listings();

// The demangled names of all kernels there, without what stands in parentheses at the end.
std::vector<std::string> kernel_names();

bool has_kernel(const std::string& name);

// Throws std::invalid_argument if there is none, or if it has anything that is not known. Mistakes
// may be planted in what it returns.
Program& kernel(const std::string& name);

}  // namespace terse::machine
