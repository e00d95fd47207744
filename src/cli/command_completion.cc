// `terse completion SHELL`: what makes a shell complete terse's command line.
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/texts.h"
#include "cli/words.h"

namespace terse::cli {
namespace {

std::vector<std::string> names_in(const std::vector<Word>& words) {
  std::vector<std::string> names;
  for (const Word& word : words) names.push_back(word.name);
  return names;
}

void bash(const std::vector<Command>& commands) {
  std::string words, values;
  for (const Command& c : commands) {
    std::vector<std::string> names = names_in(c.options);
    if (c.name.empty())
      for (const Command& each : commands) names.push_back(each.name);
    for (const Word& operand : c.operands)
      std::ranges::copy(operand.choices, std::back_inserter(names));
    words += fmt::format("        '{}') words='{}' ;;\n", c.name, fmt::join(names, " "));
    for (const Word& o : c.options)
      if (!o.value.empty())
        values +=
            fmt::format("    '{} {}') words='{}' ;;\n", c.name, o.name, fmt::join(o.choices, " "));
  }
  // bash completes files by -o default if no word fits.
  fmt::print(R"sh(# bash completion of terse: eval "$(terse completion bash)"
_terse() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command='' words='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      -*) ;;
      *) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$command $before" in
{}    *)
      case $command in
{}      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _terse terse
)sh",
             values, words);
}

std::string zsh_action(const Word& word) {
  return word.choices.empty() ? "_files" : fmt::format("({})", fmt::join(word.choices, " "));
}

// Brackets and colons are zsh's own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

void zsh(const std::vector<Command>& commands) {
  const auto arguments = [](const Command& c) {
    std::string text;
    for (const Word& o : c.options)
      text +=
          " \\\n        " + quoted(fmt::format("{}[{}]{}", o.name, zsh_text(o.meaning),
                                               o.value.empty() ? "" : ":value:" + zsh_action(o)),
                                   R"('\'')");
    return text;
  };
  std::string list, cases;
  for (const Command& c : commands) {
    if (c.name.empty()) continue;
    list += "    " + quoted(c.name + ":" + zsh_text(c.meaning), R"('\'')") + "\n";
    const std::string operand = c.operands.empty() ? "_files" : zsh_action(c.operands.front());
    cases += fmt::format("      {})\n        _arguments{} \\\n        '*:operand:{}' ;;\n", c.name,
                         arguments(c), operand);
  }
  fmt::print(R"sh(#compdef terse
# zsh completion of terse, for a file _terse in a folder of $fpath
_terse() {{
  local -a commands
  local state line
  commands=(
{}  )
  _arguments -C{} \
        '1:command:->command' '*::operand:->rest'
  case $state in
    command) _describe command commands ;;
    rest) case $words[1] in
{}    esac ;;
  esac
}}
if [ "$funcstack[1]" = _terse ]; then _terse "$@"; else compdef _terse terse; fi
)sh",
             list, arguments(commands.front()), cases);
}

void fish(const std::vector<Command>& commands) {
  fmt::print("# fish completion of terse: terse completion fish | source\n");
  const auto text = [](const std::string& meaning) {
    return quoted(meaning.substr(0, meaning.find('\n')), R"(\')");
  };
  for (const Command& c : commands) {
    const std::string when = c.name.empty()
                                 ? "__fish_use_subcommand"
                                 : fmt::format("'__fish_seen_subcommand_from {}'", c.name);
    if (!c.name.empty())
      fmt::print("complete -c terse -f -n __fish_use_subcommand -a {} -d {}\n", c.name,
                 text(c.meaning));
    for (const Word& o : c.options)
      fmt::print("complete -c terse -n {} -l {} -d {}{}\n", when, o.name.substr(2), text(o.meaning),
                 o.value.empty()     ? ""
                 : o.choices.empty() ? " -r"
                                     : fmt::format(" -x -a '{}'", fmt::join(o.choices, " ")));
    for (const Word& operand : c.operands)
      if (!operand.choices.empty())
        fmt::print("complete -c terse -f -n {} -a '{}'\n", when, fmt::join(operand.choices, " "));
  }
}

struct Shell {
  const char* name;
  void (*print)(const std::vector<Command>& commands);
};
constexpr Shell kShells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

}  // namespace

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print what makes a shell complete terse's command line");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->callback(
      [&app, shell] { entry_of(std::span<const Shell>(kShells), *shell).print(commands_of(app)); });
}

}  // namespace terse::cli
