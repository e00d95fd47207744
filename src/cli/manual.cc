#include "cli/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/examples.h"
#include "cli/words.h"

namespace terse::cli {
namespace {

// Escapes what roff would interpret.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string entry(const Word& word) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", plain(word.name));
  if (!word.value.empty() && word.name.starts_with("-"))
    text += fmt::format(" \\fI{}\\fR", plain(word.value));
  text += "\n" + plain(word.meaning.empty() ? "of the call" : word.meaning);
  if (!word.choices.empty() && !word.takes_scheme())
    text += plain(fmt::format(": {}", fmt::join(word.choices, ", ")));
  return text + "\n";
}

std::string section(const Command& command) {
  std::string line = fmt::format("\\fBterse {}\\fR", plain(command.name));
  if (command.options.size() > 1) line += " [\\fIOPTIONS\\fR]";
  for (const Word& operand : command.operands)
    line += fmt::format(" \\fI{}\\fR", plain(operand.name));
  std::string text = fmt::format(".SS {}\n{}.\n", line, plain(command.meaning));
  for (const Word& operand : command.operands) text += entry(operand);
  for (const Word& option : command.options)
    if (option.name != "--help") text += entry(option);
  return text;
}

}  // namespace

std::string manual(const CLI::App& app, const std::string& version) {
  std::string text = fmt::format(
      ".TH TERSE 1 \"\" \"terse {}\" \"User Commands\"\n.SH NAME\nterse \\- NCCL\\(aqs collectives "
      "in "
      "fewer bits\n.SH SYNOPSIS\n.B terse\n.I COMMAND\n[\\fIOPTIONS\\fR] ...\n.SH DESCRIPTION\n"
      "Runs programs with their NCCL calls compressed, brings their reports together, and "
      "explains\n"
      "schemes, rules, plans and settings. The variables of the environment are listed by\n"
      ".BR \"terse settings\" .\n",
      version);
  for (const Command& command : commands_of(app)) {
    if (!command.name.empty()) {
      text += section(command);
      continue;
    }
    text += ".SH OPTIONS\n";
    for (const Word& option : command.options) text += entry(option);
    text += ".SH COMMANDS\n";
  }
  text += ".SH EXAMPLES\n";
  for (const Example& example : examples())
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", plain(example.line), plain(example.meaning));
  return text +
         ".SH EXIT STATUS\n0 done, 1 a failure, 2 a bad command line.\n.B terse run\nends with the "
         "program\\(aqs own, or 127 where there is no such program and 126 where it cannot be "
         "run.\n";
}

}  // namespace terse::cli
