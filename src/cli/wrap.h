// Lines no wider than the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace terse::cli {

// Breaks longer lines at spaces. The next line begins below the last column of a table, which two
// spaces precede, or below the line's first word.
std::string wrapped(std::string_view text, size_t columns);

// Prints it as wide as the terminal.
void print_wrapped(std::string_view text);

}  // namespace terse::cli
