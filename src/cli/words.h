// Command line as data, read from CLI11's: completions and the manual are made of it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace terse::cli {

struct Word {
  std::string name;  // with its dashes, if any
  std::string meaning;
  std::string value;                 // placeholder of its value; empty: it takes none
  std::vector<std::string> choices;  // of the value, if they are few

  bool takes_scheme() const {
    return name == "--scheme" || name == "--schemes" || name == "SCHEME";
  }
};

struct Command {
  std::string name, meaning;
  std::vector<Word> options;
  std::vector<Word> operands;
};

// Commands; the program itself first, by an empty name.
std::vector<Command> commands_of(const CLI::App& app);

// Names of schemes and presets, which options whose value is a SCHEME take.
std::vector<std::string> scheme_words();

}  // namespace terse::cli
