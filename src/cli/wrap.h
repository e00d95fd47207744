// Lines no wider than the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace terse::cli {

// Returns the width of output: COLUMNS, or else the terminal's, or else 100; at least 40.
size_t columns();

// Breaks longer lines at spaces. The next line begins below the last column of a table, which two
// spaces precede, or below the line's first word.
std::string wrapped(std::string_view text, size_t columns);

}  // namespace terse::cli
