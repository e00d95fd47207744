// The command `terse`: runs programs under the interposer, and explains schemes, policies, plans
// and settings. Its subcommands have a file each.
#include <cstdio>

#include "cli/commands.h"
#include "cli/options.h"
#include "policy/nearest.h"
#include "terse/terse.h"

namespace {

using namespace terse::cli;

// Of an option or a command that there is not: which one may be meant.
std::string hint_of(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    std::vector<std::string> names;
    if (!word.starts_with("-"))
      for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    else
      for (const CLI::App* command : app.get_subcommands())
        for (const CLI::Option* option : command->get_options())
          for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::vector<std::string_view> known(names.begin(), names.end());
    if (const std::string_view meant = terse::nearest(word.substr(0, word.find('=')), known);
        !meant.empty())
      return fmt::format("; did you mean {}?", meant);
  }
  return "";
}

int run(int argc, char** argv) {
  CLI::App app("NCCL's collectives in fewer bits.", "terse");
  app.set_version_flag("--version", fmt::format("terse {}.{}.{}", TERSE_VERSION_MAJOR,
                                                TERSE_VERSION_MINOR, TERSE_VERSION_PATCH));
  app.require_subcommand(0, 1);  // so that one that is not known is named
  app.footer(
      "Exit status: 0 done, 1 a failure, 2 a bad command line. `terse run` ends with the program's "
      "own,\nor 127 where there is no such program and 126 where it cannot be run.");
  int status = kDone;
  for (const auto add :
       {add_explain, add_scheme, add_schemes, add_presets, add_plan, add_settings, add_forecast})
    add(app);
  for (const auto add : {add_run, add_report, add_tune}) add(app, status);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) refuse("a command is missing");
  } catch (const CLI::Success& asked) {  // for help, or the version
    return app.exit(asked);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "terse: {}{}\nTry terse --help, or --help after its commands.\n", e.what(),
               hint_of(app));
    return kBadUsage;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "terse: {}\n", e.what());
    return kFailed;
  }
}
