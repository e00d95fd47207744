// Report of one communicator (observe/reporter.h).
#pragma once

#include "engine/comm/communicator.h"
#include "report/report.h"

namespace terse {

// Returns the communicator's part of the report. `whole`: all of its calls are done; else another
// thread may be in it meanwhile.
report::Communicator account_of(Communicator& communicator, bool whole);

// Returns what errors of the scheme are to be compared with.
report::ErrorScale error_scale_of(const Scheme& scheme);

}  // namespace terse
