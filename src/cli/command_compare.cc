// `terse compare`: two jobs' reports beside each other.
#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/texts.h"
#include "report/compare_jobs.h"

namespace terse::cli {
namespace {

// Merges a folder's reports; says what is missing.
report::Merged read(const std::string& folder, int& status) {
  report::Merged merged = report::merge(report::read_folder(folder));
  for (const std::string& complaint : merged.complaints)
    fmt::print(stderr, "terse compare: {}: {}\n", folder, printable(complaint));
  if (!merged.complaints.empty()) status = kFailed;
  return merged;
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  struct Options {
    std::string a, b;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("compare", "Set the reports of two jobs beside each other");
  command->add_option("a", options->a, "Folder of the one job's reports")->required();
  command->add_option("b", options->b, "Folder of the other's")->required();
  command->callback([options, &status] {
    status = kDone;
    const report::Merged a = read(options->a, status), b = read(options->b, status);
    fmt::print("{}", report::compare(a, b));
    flush_output();
  });
}

}  // namespace terse::cli
