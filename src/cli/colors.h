// Colors on a terminal, and never in a pipe.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace terse::cli {

// Not where NO_COLOR is set (no-color.org), nor on a terminal that has none.
bool has_colors(std::FILE* stream);

// "terse:" of a message, red where standard error has colors.
std::string complaint_prefix();

// A help text: headings bold, names of options and commands green.
std::string colored_help(std::string_view text);

}  // namespace terse::cli
