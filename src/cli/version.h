#pragma once

#include <string>

namespace terse::cli {

std::string version();  // "1.2.3"
// The program's name and version, what was built of what, and what of it is installed: a line each.
std::string version_and_build();

}  // namespace terse::cli
