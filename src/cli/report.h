// `terse report`: brings the reports of all ranks together.
#pragma once

#include <string>

namespace terse::cli {

struct ReportRequest {
  std::string folder;
  std::string json, html;  // files to write; empty: none
};

// 0, or 1 when something is missing or does not fit, which it prints to standard error.
int report(const ReportRequest& request);

}  // namespace terse::cli
