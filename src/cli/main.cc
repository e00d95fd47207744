// The command `terse`: runs programs under the interposer, and explains schemes, policies, plans
// and settings. Its subcommands have a file each.
#include <cstdio>

#include "cli/commands.h"
#include "terse/terse.h"

namespace {

using namespace terse::cli;

int run(int argc, char** argv) {
  CLI::App app("NCCL's collectives in fewer bits.", "terse");
  app.set_version_flag("--version", fmt::format("terse {}.{}.{}", TERSE_VERSION_MAJOR,
                                                TERSE_VERSION_MINOR, TERSE_VERSION_PATCH));
  app.require_subcommand(1);
  int status = 0;
  for (const auto add : {add_run, add_explain, add_scheme, add_presets, add_plan, add_settings})
    add(app);
  add_report(app, status);
  CLI11_PARSE(app, argc, argv);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "terse: {}\n", e.what());
    return 1;
  }
}
