#include "engine/peers/told.h"

#include <fmt/format.h>

namespace terse {

ToldSettings::ToldSettings(const Settings& settings)
    : error(settings.error), policy(settings.policy.print()) {
  for (size_t i = 0; i < kSharedNumbers; ++i) numbers[i] = shared_numbers()[i].value(settings);
}

std::string differences(const ToldSettings& theirs, const ToldSettings& mine, int rank) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& their, const std::string& my) {
    text += fmt::format("{}{} is {} on rank {} but {} on this rank", text.empty() ? "" : "; ", name,
                        their, rank, my);
  };
  for (size_t i = 0; i < kSharedNumbers; ++i) {
    const SharedNumber& shared = shared_numbers()[i];
    if (theirs.numbers[i] != mine.numbers[i])
      add(shared.variable, shared.print(theirs.numbers[i]), shared.print(mine.numbers[i]));
  }
  if (theirs.policy == mine.policy) return text;
  const std::string their = theirs.policy.quoted(), my = mine.policy.quoted();
  add("the policy of TERSE_SCHEME or TERSE_POLICY", their, my);
  return their == my ? text + " (what differs comes later)" : text;
}

}  // namespace terse
