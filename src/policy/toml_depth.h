// How deep a TOML text goes, before it is parsed: a parser takes what lies in another into it by
// recursion, which the end of the stack ends.
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

// The first place of a text that goes deeper than any file of ours; none: there is no such place
// before what makes it no TOML.
std::optional<TooDeep> too_deep(std::string_view text);

}  // namespace terse
