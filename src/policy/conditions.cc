#include "policy/conditions.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "policy/nearest.h"
#include "policy/scheme.h"
#include "policy/size.h"

namespace terse {
namespace {

using Number = std::optional<uint64_t> (*)(std::string_view text);

// Adds a value; a second time is an error.
void add_name(Set& set, Set value, std::string_view name) {
  if ((set & value) != 0) fail(ncclInvalidArgument, "\"{}\" is given twice", name);
  set |= value;
}

// Parses FIRST..LAST, FIRST.., ..LAST or one number.
void set_range(Range& range, std::string_view text, Number number, const char* such_as) {
  const auto read = [&](std::string_view part, uint64_t otherwise) {
    if (part.empty()) return otherwise;
    const std::optional<uint64_t> value = number(part);
    if (!value) fail(ncclInvalidArgument, "\"{}\" is not a range such as {}", text, such_as);
    return *value;
  };
  const size_t dots = text.find("..");
  if (text.empty() || text == "..")
    fail(ncclInvalidArgument, "\"{}\" is not a range such as {}", text, such_as);
  range.first = read(text.substr(0, dots), 0);
  range.last = dots == text.npos ? range.first : read(text.substr(dots + 2), UINT64_MAX);
  if (range.first > range.last)
    fail(ncclInvalidArgument, "the range \"{}\" is empty: it begins after its end", text);
}

// Sets a number of ranks or nodes, at least one.
void set_number_of(Range& range, std::string_view text, const char* such_as) {
  set_range(range, text, parse_number, such_as);
  if (range.last == 0) fail(ncclInvalidArgument, "no call is of 0");
}

// Shortest text of a range.
std::string print_range(const Range& range, std::string (*number)(uint64_t)) {
  if (range.everything()) return "";
  if (range.first == range.last) return number(range.first);
  return (range.first == 0 ? "" : number(range.first)) + ".." +
         (range.last == UINT64_MAX ? "" : number(range.last));
}

std::string print_number(uint64_t number) { return fmt::format("{}", number); }

constexpr std::string_view kUsual = "usual..";

constexpr Condition kConditions[] = {
    {"collective", ConditionKind::kNames,
     [](std::string_view value, Match& m) {
       add_name(m.collectives, parse_collective(value), value);
     },
     [](const Match& m) { return print_collectives(m.collectives); }},
    {"dtype", ConditionKind::kNames,
     [](std::string_view value, Match& m) { add_name(m.dtypes, parse_dtype(value), value); },
     [](const Match& m) { return print_dtypes(m.dtypes); }},
    {"op", ConditionKind::kNames,
     [](std::string_view value, Match& m) { add_name(m.ops, parse_op(value), value); },
     [](const Match& m) { return print_ops(m.ops); }},
    {"bytes", ConditionKind::kRange,
     [](std::string_view value, Match& m) {
       m.usual = value == kUsual;
       if (!m.usual) set_range(m.bytes, value, parse_size, "64K..1M or 1M..");
     },
     [](const Match& m) {
       return m.usual ? std::string(kUsual) : print_range(m.bytes, print_size);
     }},
    {"shard", ConditionKind::kRange,
     [](std::string_view value, Match& m) {
       set_range(m.shard, value, parse_size, "64K..1M or 1M..");
     },
     [](const Match& m) { return print_range(m.shard, print_size); }},
    {"ranks", ConditionKind::kRange,
     [](std::string_view value, Match& m) { set_number_of(m.ranks, value, "2..8 or 16.."); },
     [](const Match& m) { return print_range(m.ranks, print_number); }},
    {"nodes", ConditionKind::kRange,
     [](std::string_view value, Match& m) { set_number_of(m.nodes, value, "1 or 2.."); },
     [](const Match& m) { return print_range(m.nodes, print_number); }},
    {"name", ConditionKind::kPattern,
     [](std::string_view value, Match& m) {
       if (value.empty()) fail(ncclInvalidArgument, "the name is empty; leave it out for any name");
       if (std::ranges::any_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
         fail(ncclInvalidArgument, "the name has a control character");
       m.name = value.find_first_not_of('*') == value.npos ? "" : value;  // any
     },
     [](const Match& m) { return m.name.empty() ? "" : quote(m.name); }},
    {"tag", ConditionKind::kRange,
     [](std::string_view value, Match& m) {
       set_range(m.tag, value, parse_tag, "7 or 0x100..0x1ff");
     },
     [](const Match& m) { return print_range(m.tag, print_number); }},
};

}  // namespace

std::span<const Condition> conditions() { return kConditions; }

bool is_size(const Condition& condition) {
  return condition.key == "bytes" || condition.key == "shard";
}

const Condition* find_condition(std::string_view key) {
  const auto found = std::ranges::find(kConditions, key, &Condition::key);
  return found == std::end(kConditions) ? nullptr : found;
}

std::string hint_key(std::string_view key, std::span<const std::string_view> more) {
  std::vector<std::string_view> known;
  for (const Condition& c : kConditions) known.push_back(c.key);
  known.insert(known.end(), more.begin(), more.end());
  return hint(key, known);
}

std::string quote(std::string_view text) {
  if (text.find_first_of(" ;\"\\") == text.npos && text.find("->") == text.npos)
    return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string unquote(std::string_view text) {
  if (!text.starts_with('"')) {
    if (text.find('"') != text.npos)
      fail(ncclInvalidArgument, "a quote within \"{}\", which does not begin with one", text);
    return std::string(text);
  }
  std::string plain;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (i + 1 == text.size()) return plain;
      fail(ncclInvalidArgument, "\"{}\" after the closing quote", text.substr(i + 1));
    }
    if (text[i] == '\\' && ++i == text.size()) break;
    plain += text[i];
  }
  fail(ncclInvalidArgument, "a closing quote is missing");
}

}  // namespace terse
