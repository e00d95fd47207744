#include "cli/report.h"

#include <fmt/format.h>

#include <cstdio>

#include "report/merge.h"

namespace terse::cli {

int report(const ReportRequest& request) {
  const terse::report::Merged merged = terse::report::read_folder(request.folder);
  fmt::print("{}", terse::report::table(merged));
  if (!request.json.empty())
    terse::report::write_file(request.json, terse::report::merged_json(merged));
  if (!request.html.empty()) terse::report::write_file(request.html, terse::report::html(merged));
  std::fflush(stdout);
  for (const std::string& complaint : merged.complaints)
    fmt::print(stderr, "terse report: {}\n", complaint);
  return merged.complaints.empty() ? 0 : 1;
}

}  // namespace terse::cli
