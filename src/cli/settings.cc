// `terse settings`: what the environment says.
#include "policy/settings.h"

#include <unistd.h>

#include "cli/commands.h"
#include "cli/text.h"

namespace terse::cli {

void add_settings(CLI::App& app) {
  CLI::App* command = app.add_subcommand("settings", "List the settings in the environment");
  command->callback([] {
    fmt::print("{}", describe_settings());
    require_valid(settings());
    if (!settings().policy.rules.empty()) {
      fmt::print("\n");
      print_rules(settings().policy);
    }
  });
}

}  // namespace terse::cli
