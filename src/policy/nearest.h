// For messages about names that are not known: which known one may be meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terse {

// Insertions, deletions, changes and swaps of neighbours that make `b` of `a`.
size_t edit_distance(std::string_view a, std::string_view b);

// The known name that a slip of the keyboard may have turned into `word`; empty: none is so near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// `; did you mean "..."?`, or else `; known are ...`.
std::string hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace terse
