// The report of this process (TERSE_REPORT): written when its last communicator is released, and
// at its exit; then, or with TERSE_LOG=info, rank 0 also says in a line what was compressed. At the
// exit neither NCCL nor a GPU is touched, for they may be gone; what is reported of a communicator
// that was not released is what earlier calls have read.
//
// A process that forks: the child reports communicators of its own, and nothing of its parent's.
#pragma once

#include <functional>
#include <vector>

#include "policy/settings.h"
#include "report/report.h"

namespace terse {

// The communicators that there are, of which a report asks, also while the program exits.
struct Present {
  bool (*any)();
  std::vector<report::Communicator> (*accounts)();
};

// From a communicator's creation on its process has something to report. The settings last as long
// as the process.
void report_begins(const Settings& settings, int rank, const Present& present) noexcept;

// Keeps what the report needs of a communicator that goes, and writes it when there is no other
// one; where there is to be no report, but a line at the exit, nothing but sums for that is kept.
// Asks for the account only where there is either. Never throws: a report that cannot be written is
// a warning in the log.
void report_released(const std::function<report::Communicator()>& account) noexcept;

}  // namespace terse
