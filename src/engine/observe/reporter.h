// Report of this process (TERSE_REPORT): written when its last communicator is released, and at its
// exit. Then, or with TERSE_LOG=info, rank 0 also logs a line of what was compressed. The exit
// touches neither NCCL nor a GPU, which may be gone: a communicator that was not released is
// reported with what earlier calls have read.
//
// A forked child reports communicators of its own, and none of its parent's.
#pragma once

#include <functional>
#include <vector>

#include "policy/settings.h"
#include "report/report.h"

namespace terse {

// Present communicators, of which a report asks, also while the program exits.
struct Present {
  bool (*any)();
  std::vector<report::Communicator> (*accounts)();
};

// Begins reporting at a communicator's creation. The settings last as long as the process.
void report_begins(const Settings& settings, int rank, const Present& present) noexcept;

// Keeps the report of a communicator that goes, and writes all if it was the last. Without a
// report, keeps sums for the line at the exit. Asks for the account only if it is needed. Never
// throws: a report that cannot be written is a warning in the log.
void report_released(const std::function<report::Communicator()>& account) noexcept;

// Returns true once a minute, if there is to be a report: report_anew() then writes what there is,
// so that a job that is killed leaves one.
bool report_is_due() noexcept;
void report_anew() noexcept;

}  // namespace terse
