// `terse presets`: the presets, what they stand for and where they come from.
#include "policy/presets.h"

#include "cli/commands.h"
#include "cli/text.h"

namespace terse::cli {

void add_presets(CLI::App& app) {
  CLI::App* command = app.add_subcommand("presets", "List the presets, schemes by collective");
  command->callback([] {
    for (const Preset& preset : presets()) {
      fmt::print("{}: {}\n", preset.name, preset.meaning);
      for (const PresetPart& part : preset.parts) {
        const Scheme scheme = parse_scheme(part.scheme);
        fmt::print("  {:52}  {}\n    {}\n", part.scheme, scheme.off ? "" : density(scheme),
                   part.collectives != 0 ? print_collectives(part.collectives) : "all else");
      }
    }
  });
}

}  // namespace terse::cli
