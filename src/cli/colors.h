// What a terminal has: colors, which a pipe never gets, and columns.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace terse::cli {

// Returns false if NO_COLOR is set (no-color.org), or if the terminal has no colors.
bool has_colors(std::FILE* stream);

// Returns the width of output: COLUMNS, or else the terminal's, or else 100; at least 40.
size_t columns();

// "terse:" of a message, red where standard error has colors.
std::string complaint_prefix();

// A help text: headings bold, names of options and commands green.
std::string colored_help(std::string_view text);

}  // namespace terse::cli
