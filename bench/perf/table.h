// The table on the screen, to the column that of nccl-tests; ours are appended after it.
#ifndef TERSE_BENCH_PERF_TABLE_H_
#define TERSE_BENCH_PERF_TABLE_H_

#include <string>
#include <vector>

#include "options.h"
#include "result.h"

namespace terse::perf {

// All end in a newline except the pieces of a row, which are printed as they are known.
std::string TableRunHeader(const std::string& program, const Options& options, int nccl_version);
std::string TableRanks(const std::vector<RankInfo>& ranks);
std::string TableHeader(const Options& options);
std::string TableRowStart(const Row& row);
std::string TableMeasurement(const Options& options, const Measurement& measurement);
std::string TableRowEnd(const Options& options, const Row& row, const std::string& time_of_day);
std::string TableChecksums(const Row& row);
std::string TableFooter(const std::string& program, const Summary& summary);

// A number in exactly `width` characters, with as many decimals (at most two) as fit.
std::string FitNumber(double value, int width);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_TABLE_H_
