// Command lines to begin with: --help and the manual show them.
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

// "Examples:" and a command's lines; those of all for an empty name. Empty where there are none.
std::string examples_of(std::string_view command);

}  // namespace terse::cli
