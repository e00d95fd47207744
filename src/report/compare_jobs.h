// Two jobs' reports beside each other: what `terse compare` shows.
#pragma once

#include <string>

#include "report/merged_report.h"

namespace terse::report {

// Table in text, of at most 100 columns: for each collective the calls, what they sent, their time
// and error, in the one job and the other, and the ratio of the two.
std::string compare(const Merged& a, const Merged& b);

}  // namespace terse::report
