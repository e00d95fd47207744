// The timed loop, and what is counted around it.
#ifndef TERSE_BENCH_PERF_TIMING_H_
#define TERSE_BENCH_PERF_TIMING_H_

#include "case.h"

namespace terse::perf {

// Times the calls of one case as nccl-tests does: a first call, a barrier, -n iterations, the
// streams' end, and the mean (or -a) over the threads. Collective.
Measurement Time(const Run& run, int thread, Case* test, Place place);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_TIMING_H_
