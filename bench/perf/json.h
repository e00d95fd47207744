// The JSON file of -J: nccl-tests' keys, and ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "result.h"
#include "site.h"

namespace terse::perf {

struct JsonReport {
  std::string start_time;
  std::string end_time;
  int nccl_version = 0;
  std::vector<std::string> environment;
  Layout layout;
  std::vector<RankInfo> ranks;
  std::vector<Row> rows;
  Summary summary;
};

std::string quote_json(std::string_view text);
std::string make_json(const Options& options, const JsonReport& report);

// Writes to `path`, or to path.0, path.1, ... when that exists: results are never overwritten.
// Returns the path. Throws std::runtime_error.
std::string write_new_file(const std::string& path, const std::string& text);

}  // namespace terse::perf
