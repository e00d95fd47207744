#include "cli/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "codec/codec.h"
#include "policy/presets.h"

namespace terse::cli {
namespace {

// CLI11 has a set of choices only in its text: "TEXT:{off,error}".
std::vector<std::string> choices_in(const std::string& type) {
  const size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == type.npos || end == type.npos) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

Word word_of(const CLI::Option& option, const std::string& name) {
  Word word{name, option.get_description(), "", choices_in(option.get_type_name())};
  if (option.get_items_expected_max() == 0) return word;
  if (word.takes_scheme()) word.choices = scheme_words();
  word.value = "VALUE";
  return word;
}

Command command_of(const CLI::App& app, const std::string& name) {
  Command command{name, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional())
      command.operands.push_back(word_of(*option, option->get_name(true)));
    if (!option->get_lnames().empty())
      command.options.push_back(word_of(*option, "--" + option->get_lnames()[0]));
  }
  return command;
}

}  // namespace

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands = {command_of(app, "")};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command_of(*command, command->get_name()));
  return commands;
}

std::vector<std::string> scheme_words() {
  std::vector<std::string> words = {"off", "auto"};
  for (const codec::Descriptor& d : codec::kDescriptors)
    for (int bits = d.min_bits; bits <= d.max_bits; ++bits)
      words.push_back(codec::has_one_width(d) ? std::string(d.name)
                                              : fmt::format("{}{}", d.name, bits));
  for (const Preset& preset : presets()) words.emplace_back(preset.name);
  // Several codecs may share a name, by their options.
  std::vector<std::string> once;
  for (std::string& word : words)
    if (std::ranges::find(once, word) == once.end()) once.push_back(std::move(word));
  return once;
}

}  // namespace terse::cli
