// The programs are this, with one collective each.
#pragma once

#include "collective.h"

namespace terse::perf {

// Returns the exit code: 0 good, 1 a failure or wrong results, 2 a bad command line.
int run_perf(const Collective& collective, int argc, char** argv);

}  // namespace terse::perf
