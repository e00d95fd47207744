#include "policy/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "policy/conditions.h"
#include "policy/presets.h"
#include "terse/terse.h"

namespace terse {

namespace {

// Calls that a rule compresses: those of its collectives that its scheme is for.
Match compressed(const Rule& rule) {
  Match match = rule.match;
  for (size_t i = 0; i < plan::kCollectives; ++i) {
    const auto collective = static_cast<plan::Collective>(i);
    if (rule.scheme.off || !(rule.scheme.automatic || serves(rule.scheme, collective)))
      match.collectives &= ~set_of(collective);
  }
  return match;
}

// A rule with `off` has an effect, too.
bool has_an_effect(const Rule& rule) {
  return rule.scheme.off || compressed(rule).collectives != 0;
}

// Returns true for a rule by which a preset leaves calls native.
bool is_left_by_preset(const Rule& rule) { return rule.scheme.off && !rule.preset.empty(); }

// Earlier rule that compresses some calls of a rule that leaves them native under conditions. Null:
// there is none, or the rule keeps others from a later one.
const Rule* made_vain(std::span<const Rule> rules, const Rule& rule) {
  if (!rule.scheme.off || is_left_by_preset(rule) ||
      rule.match == Match{.collectives = all_collectives()})
    return nullptr;
  const auto compresses_some = [&](const Rule& other) {
    const Match match = compressed(other);
    return match.collectives != 0 && match.meets(rule.match);
  };
  const auto at = static_cast<size_t>(&rule - rules.data());
  const auto earlier = rules.first(at), later = rules.subspan(at + 1);
  const auto by = std::ranges::find_if(earlier, compresses_some);
  const bool keeps_some = std::ranges::any_of(later, [&](const Rule& other) {
    return compresses_some(other) && std::ranges::none_of(earlier, [&](const Rule& first) {
             return first.match.covers(other.match);
           });
  });
  return by == earlier.end() || keeps_some ? nullptr : &*by;
}

}  // namespace

Decision Policy::decide(const Facts& facts) const {
  bool small = false;
  for (const Rule& rule : rules) {
    const char* const refusal = rule.match.refusal(facts);
    if (refusal == nullptr) {
      const auto index = static_cast<uint32_t>(&rule - rules.data());
      return {rule.scheme.off ? nullptr : &rule.scheme, index, TERSE_BYPASS_OFF};
    }
    const std::string_view key = refusal;
    const bool by_size = key == "bytes" || key == "shard";
    if (by_size && rule.match.is_too_small(facts) && !rule.scheme.off) small = true;
  }
  return {nullptr, kNoRule, small ? TERSE_BYPASS_SMALL : TERSE_BYPASS_OFF};
}

bool Policy::compresses() const {
  return std::ranges::any_of(rules, [](const Rule& rule) { return !rule.scheme.off; });
}

bool Policy::asks_nodes() const {
  return chooses() || std::ranges::any_of(rules, [](const Rule& r) {
           return !r.match.nodes.everything() || !r.preset.empty();
         });
}

bool Policy::chooses() const {
  return std::ranges::any_of(rules, [](const Rule& r) { return r.scheme.automatic.has_value(); });
}

bool Policy::asks_name() const {
  return std::ranges::any_of(rules, [](const Rule& r) { return !r.match.name.empty(); });
}

// Rules are ranges of nodes: nothing changes but at their ends.
bool Policy::turns_on_nodes(const Facts& facts) const {
  Facts f = facts;
  const auto at = [&](uint64_t nodes) {
    f.nodes = static_cast<int>(nodes);
    return decide(f).scheme;
  };
  const Scheme* const unknown = at(0);
  const auto differs = [&](uint64_t nodes) {
    return 0 < nodes && nodes <= static_cast<uint64_t>(facts.ranks) && at(nodes) != unknown;
  };
  return differs(1) || std::ranges::any_of(rules, [&](const Rule& rule) {
           const Range& nodes = rule.match.nodes;
           return differs(nodes.first) || (nodes.last != UINT64_MAX && differs(nodes.last + 1));
         });
}

std::string Policy::print() const {
  std::string text;
  for (const Rule& rule : rules) text += (text.empty() ? "" : "; ") + print_rule(rule);
  return text.empty() ? "off" : text;
}

std::vector<std::string> Policy::warnings() const {
  // Rule that takes the calls of a rule as written, by its number; null: a part of it is reached.
  std::map<unsigned, const Rule*> taken;
  for (const Rule& rule : rules) {
    if (is_left_by_preset(rule)) continue;
    const Rule* by = nullptr;
    for (const Rule* earlier = rules.data(); earlier != &rule && by == nullptr; ++earlier)
      if (earlier->match.covers(rule.match)) by = earlier;
    const auto [entry, is_new] = taken.try_emplace(rule.number, by);
    if (!is_new && by == nullptr) entry->second = nullptr;
  }
  std::vector<std::string> lines;
  for (const Rule& rule : rules) {
    const auto entry = taken.find(rule.number);
    if (entry == taken.end()) continue;
    if (entry->second != nullptr)
      lines.push_back(fmt::format("{} is never reached: {} takes all of its calls",
                                  describe_rule(rule), describe_rule(*entry->second)));
    taken.erase(entry);
  }
  for (const Rule& rule : rules)
    if (const Rule* by = made_vain(rules, rule); by != nullptr && !by->match.covers(rule.match))
      lines.push_back(fmt::format(
          "{} leaves no call native that {} compresses: of two the first counts, so it has to come "
          "before that",
          describe_rule(rule), describe_rule(*by)));
  for (const Rule& rule : rules)
    if (!has_an_effect(rule))
      lines.push_back(fmt::format("{} compresses nothing: {} is for other collectives",
                                  describe_rule(rule), print_scheme(rule.scheme)));
  for (const Rule& rule : rules)
    if (is_left_by_preset(rule) && std::ranges::all_of(rules, [&](const Rule& other) {
          return other.number != rule.number || other.scheme.off;
        }))
      lines.push_back(
          fmt::format("{} compresses nothing: {}", describe_rule(rule), why_native(rule)));
  return lines;
}

std::string why_native(const Rule& rule) {
  if (!is_left_by_preset(rule)) return {};
  const std::string& variant = find_preset(rule.preset)->fp32_name;
  return fmt::format("the preset {} leaves {} native{}", rule.preset,
                     rule.match.dtypes == set_of(ncclFloat32) && !variant.empty()
                         ? "AllGather in fp32"
                         : "its calls",
                     variant.empty() ? "" : fmt::format(", and {} compresses it", variant));
}

// Prints the default collectives and the min size, except in the one case that reads best without.
std::string print_rule(const Rule& rule) {
  Match match = rule.match;
  const Set implied = rule.scheme.off ? all_collectives() : default_collectives();
  if (match.collectives == implied) match.collectives = 0;
  const bool of_any_size = match.bytes.everything() && match.shard.everything();
  const bool from_0 =
      !rule.scheme.off && match.bytes.first == 0 && match.shard.first == 0 && !match.usual;
  std::string text;
  for (const Condition& c : conditions()) {
    std::string value = c.print(match);
    if (from_0 && of_any_size && c.key == "bytes") value = "..";
    if (from_0 && is_size(c) && value.starts_with("..")) value.insert(0, "0");
    if (value.empty()) continue;
    text += c.key == "collective" ? value + ' ' : fmt::format("{}={} ", c.key, value);
  }
  return text + (text.empty() ? "" : "-> ") + print_scheme(rule.scheme);
}

std::string describe_rule(const Rule& rule) {
  if (rule.line == 0) return fmt::format("rule {}", rule.number);
  return fmt::format("rule {} (line {})", rule.number, rule.line);
}

}  // namespace terse
