#include "engine/peers/settings_digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/profile_file.h"

namespace terse {

namespace {

std::string in_a_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Text of a profile, its name first.
std::string profile_words(const Settings& settings) {
  if (settings.no_profile) return kNoProfile;
  if (!settings.profile) return "";
  return in_a_line(settings.profile->name + " " + print_profile(*settings.profile));
}

uint64_t shared_variables() {
  std::string names;
  for (const SharedNumber& shared : shared_numbers()) names += shared.variable + std::string(" ");
  return fingerprint(names);
}

}  // namespace

SettingsDigest::SettingsDigest(const Settings& settings)
    : variables(shared_variables()),
      error(settings.error),
      policy(settings.policy.print()),
      profile(profile_words(settings)),
      levels(in_a_line(print_levels(settings.levels))) {
  for (size_t i = 0; i < kSharedNumbers; ++i) numbers[i] = shared_numbers()[i].value(settings);
}

std::string differences(const SettingsDigest& theirs, const SettingsDigest& mine, int rank) {
  if (theirs.variables != mine.variables)
    return fmt::format("rank {} has another build of terse, with other settings", rank);
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
  const auto compare = [&](std::string_view name, const auto& theirs, const auto& mine) {
    if (theirs == mine) return;
    const std::string their = theirs.quoted(), my = mine.quoted();
    add(name, their, my);
    if (their == my) text += " (what differs comes later)";
  };
  compare("the policy of TERSE_SCHEME or TERSE_POLICY", theirs.policy, mine.policy);
  compare("the profile of TERSE_PROFILE", theirs.profile, mine.profile);
  compare("what is in the file of TERSE_LEVELS", theirs.levels, mine.levels);
  return text;
}

}  // namespace terse
