// `terse presets`: presets, their meanings and sources.
#include "cli/commands.h"
#include "cli/texts.h"
#include "cli/wrap.h"
#include "policy/presets.h"

namespace terse::cli {

void add_presets(CLI::App& app) {
  CLI::App* command = app.add_subcommand("presets", "List the presets, schemes by collective");
  command->callback([] {
    std::string text, variant;  // of the preset before
    for (const Preset& preset : presets()) {
      text += fmt::format("{}  {}\n", preset.name, preset.meaning);
      // A variant differs only in its AllGather.
      const size_t shown = preset.name == variant ? 1 : preset.parts.size();
      variant = preset.fp32_name;
      for (const PresetPart& part : std::span(preset.parts).first(shown)) {
        const Scheme scheme = parse_scheme(part.scheme);
        text += fmt::format(
            "  {}  {}\n    {}{}\n", part.scheme, scheme.off ? "native" : density(scheme),
            part.collectives != 0 ? print_collectives(part.collectives) : "all else",
            part.dtypes != 0 ? " dtype=" + print_dtypes(part.dtypes) : "");
      }
    }
    text +=
        "\nBy itself a preset is for AllReduce, AllGather and ReduceScatter; all else takes a rule "
        "that names it, as `broadcast -> safe`. Leave Broadcast native where it hands out weights "
        "that are kept, as ZeRO does with its master weights and DDP at its start: what is rounded "
        "there stays so.\n";
    print_wrapped(text);
  });
}

}  // namespace terse::cli
