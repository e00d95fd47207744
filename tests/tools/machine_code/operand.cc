#include "operand.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace terse::machine {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("operand not known: " + std::string(text));
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_end(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Returns true if the text is the prefix and a number below `last`, or the prefix and `last_name`,
// which stands for `last`.
bool numbered(std::string_view text, std::string_view prefix, char last_name, uint32_t last,
              uint32_t& index) {
  if (!take(text, prefix) || text.empty()) return false;
  if (text.size() == 1 && text[0] == last_name) {
    index = last;
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc{} && end == text.data() + text.size() && index < last;
}

bool is_register(std::string_view text, uint32_t& index) {
  return numbered(text, "R", 'Z', kZeroRegister, index);
}

bool is_uniform(std::string_view text, uint32_t& index) {
  return numbered(text, "UR", 'Z', kZeroRegister, index);
}

bool is_integer(std::string_view text, int64_t& value) {
  const bool negative = take(text, "-");
  if (!take(text, "0x")) return false;
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  value = static_cast<int64_t>(negative ? -bits : bits);
  return error == std::errc{} && end == text.data() + text.size();
}

bool is_real(std::string_view text, double& value) {
  const bool negative = take(text, "-");
  if (!negative) take(text, "+");
  if (text == "INF") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == "QNAN") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
  }
  if (negative) value = -value;
  return true;
}

bool is_scoreboards(std::string_view text) {
  if (!take(text, "{") || !take_end(text, "}")) return false;
  for (bool more = true; more;) {
    const size_t end = text.find(',');
    uint32_t index = 0;
    if (!numbered(text.substr(0, end), "", '\0', kScoreboards, index)) return false;
    more = end != text.npos;
    if (more) text.remove_prefix(end + 1);
  }
  return true;
}

// What stands between the brackets of an address or of a constant.
void parse_place(std::string_view text, Operand& operand) {
  const std::string_view whole = text;
  while (!text.empty()) {
    const size_t end = text.find('+', 1);
    std::string_view term = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (is_integer(term, operand.value) || is_uniform(term, operand.uniform_base)) continue;
    take_end(term, ".64");
    if (take_end(term, ".U32")) operand.base_is_32_bits = true;
    for (const uint32_t scale : {4u, 8u, 16u})
      if (take_end(term, ".X" + std::to_string(scale))) operand.scale = scale;
    if (operand.base != kZeroRegister || !is_register(term, operand.base)) refuse(whole);
  }
}

Operand parse_brackets(std::string_view text) {
  const std::string_view whole = text;
  Operand operand{Kind::kAddress};
  if (take(text, "c[")) {
    operand.kind = Kind::kConstant;
    const size_t end = text.find(']');
    int64_t bank = 0;
    if (end == text.npos || !is_integer(text.substr(0, end), bank)) refuse(whole);
    operand.index = static_cast<uint32_t>(bank);
    text.remove_prefix(end + 1);
  } else if (text.starts_with("desc[")) {  // how memory is cached
    text.remove_prefix(text.find(']') + 1);
  }
  if (!take(text, "[") || !take_end(text, "]")) refuse(whole);
  parse_place(text, operand);
  return operand;
}

}  // namespace

Operand parse_operand(std::string_view text) {
  const std::string_view whole = text;
  while (take_end(text, " ")) {
  }
  take_end(text, ".reuse");
  Operand operand{Kind::kInteger};
  if (is_integer(text, operand.value)) return operand;
  operand.kind = Kind::kReal;
  if (is_real(text, operand.real)) return operand;

  const bool negated = take(text, "-"), complemented = take(text, "~") || take(text, "!");
  const bool absolute = take(text, "|");
  take_end(text, ".reuse");
  if (absolute && !take_end(text, "|")) refuse(whole);
  take_end(text, ".reuse");

  if (text.starts_with("c[") || text.starts_with("desc[") || text.starts_with("[")) {
    operand = parse_brackets(text);
  } else if (take(text, "`(") && take_end(text, ")")) {
    operand = {Kind::kLabel};
    operand.name = text;
  } else if (text == "SRZ" || text.starts_with("SR_")) {
    operand = {Kind::kSpecial};
    operand.name = text;
  } else if (is_scoreboards(text)) {
    operand = {Kind::kScoreboards};
  } else if (text == "PR") {
    operand = {Kind::kPredicates};
  } else {
    if (take_end(text, ".H0_H0")) operand.half = Half::kLow;
    if (take_end(text, ".H1_H1") || take_end(text, ".H1")) operand.half = Half::kHigh;
    take_end(text, ".reuse");
    if (is_register(text, operand.index)) {
      operand.kind = Kind::kRegister;
    } else if (is_uniform(text, operand.index)) {
      operand.kind = Kind::kUniform;
    } else if (numbered(text, "P", 'T', kTruePredicate, operand.index)) {
      operand.kind = Kind::kPredicate;
    } else if (numbered(text, "UP", 'T', kTruePredicate, operand.index)) {
      operand.kind = Kind::kUniformPredicate;
    } else if (numbered(text, "SB", '\0', kScoreboards, operand.index)) {
      operand.kind = Kind::kScoreboard;
    } else if (numbered(text, "B", '\0', kBarriers, operand.index)) {
      operand.kind = Kind::kBarrier;
    } else {
      refuse(whole);
    }
  }
  operand.negated = negated;
  operand.complemented = complemented;
  operand.absolute = absolute;
  return operand;
}

}  // namespace terse::machine
