// The timed loop, and what is counted around it.
#pragma once

#include "case.h"

namespace terse::perf {

// Times the calls of one case as nccl-tests does: a first call, a barrier, -n iterations, the
// streams' end, and the mean (or -a) over the threads. Collective.
Measurement time_calls(const Run& run, int thread, Case* test, Place place);

}  // namespace terse::perf
