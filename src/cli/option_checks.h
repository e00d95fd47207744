// Bounds and checks of the subcommands' options.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/plan.h"

namespace terse::cli {

// Exit statuses, beside those of a program that `terse run` becomes. The last two are a shell's.
enum ExitStatus { kDone = 0, kFailed = 1, kBadUsage = 2, kNotExecutable = 126, kNotFound = 127 };

// Max ranks: more than any machine has, and few enough to make a plan at once.
constexpr int kMaxRanks = 65536;

// Max bytes of an address space.
constexpr uint64_t kMaxBytes = uint64_t{1} << 47;

// Refuses the command line, as a check of CLI11's does.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw CLI::ValidationError(fmt::format(format, std::forward<Args>(args)...));
}

// Checks a word of a table of names.
template <class Entry>
const Entry& entry_of(std::span<const Entry> table, const std::string& name) {
  const auto found = std::ranges::find(table, name, &Entry::name);
  if (found == table.end()) refuse("{} is not known", name);
  return *found;
}

// Checks that a word is one of the names.
inline CLI::IsMember one_of(std::span<const std::string_view> names) {
  return CLI::IsMember(std::vector<std::string>(names.begin(), names.end()));
}

// Checks by a function that throws Error for what it cannot read.
template <class Read>
auto readable_by(Read read) {
  return [read](const std::string& text) -> std::string {
    try {
      read(text);
      return "";
    } catch (const Error& e) {
      return e.message;
    }
  };
}

// Checks that a text is not empty, as a script's unset variable is.
inline std::string not_empty(const std::string& text) { return text.empty() ? "it is empty" : ""; }

// Checks the same, and that an option's value is not the "--" before a program.
inline std::string not_missing(const std::string& text) {
  return text == "--" ? "its value is missing before --" : not_empty(text);
}

// Variable of the environment.
struct Variable {
  std::string name, value;
};

// Checks the settings with these in place of the environment's. Throws Error.
void require_valid_with(const std::vector<Variable>& variables);

// Topology of ranks spread over nodes, and these over pods. Refuses what cannot be.
plan::Topology topology_of(int ranks, int nodes, int pods);

// Refuses a call whose plan would be too long to be made, or to be predicted by the plans of all
// ranks of a node, if a root receives.
void require_feasible(plan::Collective collective, const plan::Shape& shape, bool predicted);

// require_feasible() by the parts that the ranks of a node send to all others: refuses more than
// `most`, counted for each algorithm.
void require_few_on_a_node(const plan::Shape& shape, double most);

}  // namespace terse::cli
