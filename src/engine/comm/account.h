// What a report says of one communicator (observe/reporter.h).
#pragma once

#include "engine/comm/communicator.h"
#include "report/report.h"

namespace terse {

// `whole`: all of its calls are done. Else another thread may be in it meanwhile.
report::Communicator account_of(Communicator& communicator, bool whole);

}  // namespace terse
