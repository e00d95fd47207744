// Suggestions for unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace terse {

// Number of insertions, deletions, changes and swaps of neighbours that make `b` of `a`.
size_t edit_distance(std::string_view a, std::string_view b);

// Known name that a typing error may have turned into `word`, in large or small letters, or that it
// is the beginning of; empty: there is none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// Text for a message: `; did you mean "..."?`, or else `; known are ...`.
std::string hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace terse
