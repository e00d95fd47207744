#include "policy/draft.h"

#include <algorithm>

#include "policy/nearest.h"
#include "policy/presets.h"
#include "policy/size.h"

namespace terse {
namespace {

// Names before a scheme's colon.
std::vector<std::string> scheme_names() {
  std::vector<std::string> names{"off"};
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  for (const std::string& name : codec_names()) names.push_back(name);
  return names;
}

// Returns true for int9 and minmax16, which are no typing errors.
bool asks_for_bits(std::string_view name) {
  const std::string_view codec = name.substr(0, name.find_last_not_of("0123456789") + 1);
  return codec != name && std::ranges::any_of(codec::kDescriptors, [&](const auto& d) {
           return d.name == codec && !codec::has_one_width(d);
         });
}

Scheme parse(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  if (find_preset(name) != nullptr)
    fail(ncclInvalidArgument, "the preset \"{}\" takes no options", name);
  try {
    return parse_scheme(text);
  } catch (Error& e) {
    if (const std::string repaired = meant_scheme(text); !repaired.empty())
      fail(e.result, "\"{}\" is no scheme; did you mean \"{}\"?", text, repaired);
    if (asks_for_bits(name)) throw;
    const std::vector<std::string> names = scheme_names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string_view meant = nearest(name, known);
    if (!meant.empty() && meant != name) e.message += fmt::format("; did you mean \"{}\"?", meant);
    throw;
  }
}

// Requires a size between the floor and an upper limit.
void require_some_size(const Match& match) {
  const uint64_t most = std::min(match.bytes.last, match.shard.last);
  if (match.shard.first > most)
    fail(ncclInvalidArgument,
         "of up to {} no message has a shard of {} or more; 0..{} takes small ones, too",
         print_size(most), print_size(match.shard.first), print_size(most));
}

// Names in both sets; an empty set has all.
Set both(Set a, Set b) { return a == 0 ? b : b == 0 ? a : a & b; }

// Sets the min size of a rule without one. `auto` finds its own.
void set_least(Floor floor, Rule& rule) {
  Match& match = rule.match;
  match.usual =
      !floor && !rule.scheme.automatic && match.bytes.everything() && match.shard.everything();
  if (!match.usual) match.shard.first = floor.value_or(kUsualShard);
}

}  // namespace

std::string meant_scheme(std::string_view text) {
  std::string repaired;
  for (const char c : text) {
    const bool separates = c == ':' || c == ',' || c == ';' || c == ' ';
    if (!separates)
      repaired += c;
    else if (repaired.empty() || (repaired.back() != ':' && repaired.back() != ','))
      repaired += repaired.find(':') == repaired.npos ? ':' : ',';
  }
  try {
    parse_scheme(repaired);
    return repaired == text ? "" : repaired;
  } catch (const Error&) {
    return "";
  }
}

void add_value(const Condition& condition, std::string_view value, Draft& draft) {
  condition.add(value, draft.match);
  if (is_size(condition) && !value.starts_with("..")) draft.names_least = true;
}

void add_rule(const Draft& draft, Floor floor, Policy& policy) {
  const auto add = [&](Set collectives, Set dtypes, std::string_view text,
                       std::string_view preset) {
    Rule rule{draft.match, parse(text), draft.number, draft.line, std::string(preset)};
    rule.match.collectives = collectives;
    rule.match.dtypes = dtypes;
    if (!draft.names_least && !rule.scheme.off) set_least(floor, rule);
    require_some_size(rule.match);
    policy.rules.push_back(std::move(rule));
  };
  constexpr Set kMessages = set_of(plan::Collective::kSend) | set_of(plan::Collective::kRecv);
  Set named = draft.match.collectives;
  if (draft.match.ops != 0) {
    if (const Set others = named & ~reducing_collectives())
      fail(ncclInvalidArgument, "op is for collectives that reduce, and {} does not",
           print_collectives(others));
  }
  const Preset* preset = find_preset(draft.scheme);
  if (preset == nullptr) {
    const bool off = draft.scheme == "off";
    if ((named & kMessages) != 0 && parse(draft.scheme).automatic)
      fail(ncclInvalidArgument, "auto is for collectives of all ranks, not for sendrecv");
    if (named == 0) named = off ? all_collectives() : default_collectives();
    return add(named, draft.match.dtypes, draft.scheme, {});
  }
  Set left = named != 0 ? named : default_collectives();
  if (draft.match.ops != 0) left &= reducing_collectives();
  for (const PresetPart& part : preset->parts) {
    const Set collectives = part.collectives == 0 ? left : left & part.collectives;
    const Set dtypes = both(draft.match.dtypes, part.dtypes);
    if (collectives == 0 || (dtypes == 0 && part.dtypes != 0)) continue;
    add(collectives, dtypes, part.scheme, preset->name);
    if (part.dtypes == 0 || dtypes == draft.match.dtypes) left &= ~collectives;
  }
}

}  // namespace terse
