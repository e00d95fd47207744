// The table on the screen, to the column that of nccl-tests; ours are appended after it.
#pragma once

#include <string>
#include <vector>

#include "options.h"
#include "result.h"
#include "site.h"

namespace terse::perf {

// All end in a newline except the pieces of a row, which are printed as they are known.
std::string table_run_header(const std::string& program, const Options& options, int nccl_version);
std::string table_ranks(const std::vector<RankInfo>& ranks, const Layout& layout);
std::string table_header(const Options& options, const Layout& layout);
std::string table_row_start(const Row& row);
std::string table_measurement(const Options& options, const Measurement& measurement);
std::string table_row_end(const Options& options, const Layout& layout, const Row& row,
                          const std::string& time_of_day);
std::string table_checksums(const Row& row);
// `memory` is what -M counts, as Device::memory says.
std::string table_footer(const std::string& program, const std::string& memory,
                         const Summary& summary);

// A number in exactly `width` characters, with as many decimals (at most two) as fit.
std::string fit_number(double value, int width);

}  // namespace terse::perf
