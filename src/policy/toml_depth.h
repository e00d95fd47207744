// Depth of a TOML text, checked before it is parsed: a parser recurses into nested values, until
// the stack ends.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace terse {

struct TooDeep {
  size_t offset;  // in the text
  std::string what;
};

// First place of a text that nests deeper than any file of ours; none: there is no such place
// before an error of TOML's.
std::optional<TooDeep> too_deep(std::string_view text);

}  // namespace terse
