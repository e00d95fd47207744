// The three programs are this, with one collective each.
#ifndef TERSE_BENCH_PERF_PERF_H_
#define TERSE_BENCH_PERF_PERF_H_

#include "collective.h"

namespace terse::perf {

// Returns the exit code: 0 good, 1 a failure or wrong results, 2 a bad command line.
int Main(const Collective& collective, int argc, char** argv);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_PERF_H_
