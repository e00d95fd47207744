// Conditions of a rule by key, the same in a policy file and on one line.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "policy/match.h"

namespace terse {

enum class ConditionKind : uint8_t { kNames, kRange, kPattern };

struct Condition {
  std::string_view key;
  ConditionKind kind;
  // Adds one value; names may have several. Throws Error(ncclInvalidArgument) that says what is
  // wrong with it.
  void (*add)(std::string_view value, Match& match);
  // Canonical text; empty: the rule lacks the condition.
  std::string (*print)(const Match& match);
};

std::span<const Condition> conditions();

// Returns true if the condition is about a message's size.
bool is_size(const Condition& condition);

// Returns null if there is none with this key.
const Condition* find_condition(std::string_view key);

// "; did you mean ..." for a key that is not known. `more` are keys beside the conditions.
std::string hint_key(std::string_view key, std::span<const std::string_view> more);

// Text in double quotes, \" and \\ within: needed where it holds what a rule's grammar uses.
std::string quote(std::string_view text);

// Text of a quoted or unquoted value. Throws Error for a misplaced quote.
std::string unquote(std::string_view text);

}  // namespace terse
