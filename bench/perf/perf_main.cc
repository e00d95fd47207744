// One of the programs: which, the build says.
#include "perf.h"

int main(int argc, char** argv) {
  return terse::perf::run_perf(terse::perf::find_collective(TERSE_PERF_COLLECTIVE), argc, argv);
}
