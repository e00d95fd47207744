// What the options of the subcommands share: their bounds, and how one that cannot be right is
// refused.
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

// Exit statuses, beside those of a program that `terse run` has become. The last two are a shell's.
enum ExitStatus { kDone = 0, kFailed = 1, kBadUsage = 2, kNotExecutable = 126, kNotFound = 127 };

// More than any machine has, and few enough for a plan to be made at once.
constexpr int kMaxRanks = 65536;

// No address space holds more.
constexpr uint64_t kMaxBytes = uint64_t{1} << 47;

// The command line cannot be right, as where a check of CLI11's says so.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw CLI::ValidationError(fmt::format(format, std::forward<Args>(args)...));
}

// Of a table of names.
template <class Entry>
const Entry& entry_of(std::span<const Entry> table, const std::string& name) {
  const auto found = std::ranges::find(table, name, &Entry::name);
  if (found == table.end()) refuse("{} is not known", name);
  return *found;
}

// A check by a function that throws Error for what it cannot read.
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

// A check of what has to say something: a script's variable that is not set does not.
inline std::string not_empty(const std::string& text) { return text.empty() ? "it is empty" : ""; }

// Of the environment.
struct Variable {
  std::string name, value;
};

// Of the settings that there would be with these in place of the environment's own. Throws Error.
void require_valid_with(const std::vector<Variable>& variables);

// Refuses a call whose plan would be too long to be made here; or to be predicted, for which those
// of all ranks of a node are made where a root receives.
void require_feasible(plan::Collective collective, const plan::Shape& shape, bool predicted);

// The same of one whose ranks of a node send more parts to all others than `most`: each algorithm's
// are counted.
void require_few_on_a_node(const plan::Shape& shape, double most);

}  // namespace terse::cli
