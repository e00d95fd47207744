// `terse report`: merges the reports of all ranks.
#include "base/file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/texts.h"
#include "report/merged_report.h"

namespace terse::cli {
namespace {

struct ReportOptions {
  std::string folder;
  std::string json, html, trace;  // files to write; empty: none
};

// Returns 0, or 1 if something is missing or does not fit, which it prints to standard error.
int show_report(const ReportOptions& o) {
  const report::Folder folder = report::read_folder(o.folder);
  // Checked before anything is written: there may be nothing to trace.
  const std::string events = o.trace.empty() ? "" : report::trace_events(folder.reports);
  const report::Merged merged = report::merge(folder);
  fmt::print("{}", report::table(merged));
  if (!o.json.empty()) write_file(o.json, report::merged_json(merged));
  if (!o.html.empty()) write_file(o.html, report::html(merged));
  if (!o.trace.empty()) write_file(o.trace, events);
  flush_output();
  for (const std::string& complaint : merged.complaints)
    fmt::print(stderr, "terse report: {}\n", printable(complaint));
  return merged.complaints.empty() ? kDone : kFailed;
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Bring the reports of all ranks together");
  command->add_option("folder", options->folder, "Where TERSE_REPORT had them written")->required();
  command->add_option("--json", options->json, "Write the numbers to this file")->check(not_empty);
  command->add_option("--html", options->html, "Write a page with plots to this file")
      ->check(not_empty);
  command
      ->add_option("--trace", options->trace,
                   "Write the calls that TERSE_TRACE kept, as Chrome and Perfetto read them")
      ->check(not_empty);
  command->callback([options, &status] { status = show_report(*options); });
}

}  // namespace terse::cli
