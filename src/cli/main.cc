// The command `terse`: runs programs under the interposer, and explains schemes, policies, plans
// and settings. Its subcommands have a file each.
#include <cstdio>

#include "cli/commands.h"
#include "cli/options.h"
#include "terse/terse.h"

namespace {

using namespace terse::cli;

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
    fmt::print(stderr, "terse: {}\nTry terse --help, or --help after its commands.\n", e.what());
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
