// `terse scheme`: meaning of a scheme, a preset or a line of rules.
#include "cli/commands.h"
#include "cli/texts.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

void explain_scheme(const std::string& text) {
  require_valid(settings());
  const Policy policy = parse_policy_line(text, settings().min_bytes);
  const Rule& first = policy.rules.front();
  const bool bare = policy.rules.size() == 1 && first.preset.empty();
  if (!bare || text.find("->") != text.npos) return print_rules(policy);
  fmt::print("{}\n", print_scheme(first.scheme));
  if (!first.scheme.off && !first.scheme.automatic) fmt::print("{}\n", density(first.scheme));
}

}  // namespace

void add_scheme(CLI::App& app) {
  const auto text = std::make_shared<std::string>();
  CLI::App* scheme = app.add_subcommand("scheme", "Check and explain a scheme, or a line of rules");
  scheme->add_option("text", *text, "NAME[:key=value,...], or rules as TERSE_SCHEME has them")
      ->required();
  scheme->callback([text] { explain_scheme(*text); });
}

}  // namespace terse::cli
