// The instructions that are known: a table for each group of them.
#pragma once

#include <span>
#include <string_view>

#include "instruction.h"

namespace terse::machine {

struct Rule {
  std::string_view name;
  Modifiers modifiers;  // that may follow; with any other one the instruction is not known
  Execute execute;
};

std::span<const Rule> integer_rules();
std::span<const Rule> predicate_rules();
std::span<const Rule> move_rules();
std::span<const Rule> real_rules();
std::span<const Rule> conversion_rules();
std::span<const Rule> memory_rules();
std::span<const Rule> control_rules();
std::span<const Rule> collective_rules();

// Null if there is none. An instruction of the uniform datapath is that of the same name without U.
const Rule* find_rule(std::string_view name);

}  // namespace terse::machine
