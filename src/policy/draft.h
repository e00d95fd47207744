// Rules while the two grammars of a policy read them, and errors with their place.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "policy/conditions.h"
#include "policy/policy.h"

namespace terse {

// Rule as written, before defaults are filled in.
struct Draft {
  Match match;
  bool names_least = false;  // names the min size, even 0: no other floor then
  std::string_view scheme;   // or a preset
  unsigned number = 0, line = 0;
};

// Intended scheme of a text whose options have wrong separators, such as "int4;block=64"; empty:
// none.
std::string meant_scheme(std::string_view text);

// Adds one value of a condition. Throws Error(ncclInvalidArgument).
void add_value(const Condition& condition, std::string_view value, Draft& draft);

// Appends the rule, or the several that its preset makes. Throws Error(ncclInvalidArgument).
void add_rule(const Draft& draft, Floor floor, Policy& policy);

// Runs `body`; its error begins with the place.
template <class Body>
auto at(const std::string& place, const Body& body) {
  try {
    return body();
  } catch (Error& e) {
    e.message.insert(0, place + ": ");
    throw;
  }
}

}  // namespace terse
