// Example command lines, of --help and the manual.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terse::cli {

struct Example {
  std::string_view command;  // of terse
  std::string_view line;
  std::string_view meaning;
};

std::span<const Example> examples();

// "Examples:" and a command's lines; of all commands for an empty name. Empty if there are none.
std::string examples_of(std::string_view command);

}  // namespace terse::cli
