// `terse settings`: settings of the environment.
#include <unistd.h>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/texts.h"
#include "cli/wrap.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

// Warns of unknown variables, as the first reader of the settings does, unless TERSE_LOG is silent.
void name_strangers() {
  if (settings(); log_level() >= LogLevel::kWarn) return;
  for (const std::string& line : unknown_variables(environ))
    fmt::print(stderr, "terse: {}\n", line);
}

}  // namespace

void add_settings(CLI::App& app) {
  CLI::App* command = app.add_subcommand("settings", "List the settings in the environment");
  command->callback([] {
    print_wrapped(describe_settings());
    name_strangers();
    require_valid(settings());
    if (!settings().policy.rules.empty()) {
      fmt::print("\n");
      print_rules(settings().policy);
    }
  });
}

}  // namespace terse::cli
