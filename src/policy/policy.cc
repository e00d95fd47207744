#include "policy/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "terse/terse.h"

namespace terse {

Decision Policy::decide(const Facts& facts) const {
  bool small = false;
  for (const Rule& rule : rules) {
    if (facts.bytes >= rule.min_bytes)
      return {&rule.scheme, static_cast<uint32_t>(&rule - rules.data()), 0};
    small = true;
  }
  return {nullptr, kNoRule, small ? TERSE_BYPASS_SMALL : TERSE_BYPASS_OFF};
}

bool Policy::compresses() const {
  return std::ranges::any_of(rules, [](const Rule& rule) { return !rule.scheme.off; });
}

std::string Policy::print() const {
  std::string text;
  for (const Rule& rule : rules)
    text += fmt::format("{}{} from {} B", text.empty() ? "" : "; ", print_scheme(rule.scheme),
                        rule.min_bytes);
  return text.empty() ? "off" : text;
}

}  // namespace terse
