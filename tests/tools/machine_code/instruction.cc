#include "instruction.h"

#include <algorithm>
#include <stdexcept>

#include "rules.h"

namespace terse::machine {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("instruction not known: " + std::string(text));
}

std::string_view until(std::string_view& text, char end) {
  const size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return part;
}

std::string_view until_behind(std::string_view& text, char end) {
  const size_t size = std::min(text.find(end), text.size() - 1) + 1;
  const std::string_view part = text.substr(0, size);
  text.remove_prefix(size);
  return part;
}

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
}

std::optional<Modifier> modifier_of(std::string_view name) {
#define TERSE_CASE(modifier) \
  if (name == #modifier) return Modifier::k##modifier;
  TERSE_MODIFIERS(TERSE_CASE)
#undef TERSE_CASE
  return {};
}

using enum Modifier;
// Of each group an instruction has one at most.
constexpr Modifiers kGroups[] = {{kLT, kLE, kGT, kGE, kEQ, kNE, kLTU, kLEU, kGTU, kGEU, kNEU, kNAN},
                                 {kRM, kRP, kRZ},
                                 {kAND, kOR, kXOR},
                                 {kL, kR},
                                 {kU8, kS8, kU16, kS16, k64, k128},
                                 {kU32, kS32, kU64, kS64}};

bool has_two_of_a_group(const Modifiers& modifiers) {
  return std::ranges::any_of(kGroups,
                             [&](const Modifiers& group) { return modifiers.count(group) > 1; });
}

// The rule whose name is the longest beginning of the opcode; what follows it are modifiers.
const Rule* rule_of(std::string_view opcode, Modifiers& modifiers) {
  for (std::string_view name = opcode;;) {
    if (const Rule* const rule = find_rule(name)) {
      std::string_view rest = opcode.substr(name.size());
      if (!rest.empty()) rest.remove_prefix(1);
      while (!rest.empty()) {
        const auto modifier = modifier_of(until(rest, '.'));
        if (!modifier) return nullptr;
        modifiers.add(*modifier);
      }
      const bool fits = modifiers.within(rule->modifiers) && !has_two_of_a_group(modifiers);
      return fits ? rule : nullptr;
    }
    const size_t dot = name.rfind('.');
    if (dot == name.npos) return nullptr;
    name = name.substr(0, dot);
  }
}

}  // namespace

Instruction parse_instruction(std::string_view text) {
  Instruction instruction{.text = std::string(text)};
  std::string_view rest = text;
  skip_spaces(rest);
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    instruction.guard = parse_operand(until(rest, ' '));
    if (!instruction.guard->is_predicate()) refuse(text);
    skip_spaces(rest);
  }
  const std::string_view opcode = until(rest, ' ');
  const Rule* const rule = rule_of(opcode, instruction.modifiers);
  if (rule == nullptr) refuse(text);
  instruction.execute = rule->execute;
  for (skip_spaces(rest); !rest.empty(); skip_spaces(rest)) {
    // No operand but braces has a comma within. Before a label there may be none.
    std::string_view operand = rest.starts_with('{') ? until_behind(rest, '}') : until(rest, ',');
    const size_t label = operand.find(" `(");
    if (label != operand.npos) {
      instruction.operands.push_back(parse_operand(operand.substr(0, label)));
      operand.remove_prefix(label + 1);
    }
    instruction.operands.push_back(parse_operand(operand));
  }
  return instruction;
}

}  // namespace terse::machine
