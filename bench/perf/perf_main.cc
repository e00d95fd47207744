#include <algorithm>
#include <cstdlib>
#include <cstring>

// One of the programs: which, the build says.
#include "perf.h"

int main(int argc, char** argv) {
  // With a profile a call that is predicted to be slow would be NCCL's own; auto needs one.
  const bool chooses = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::strstr(argument, "auto") != nullptr;
  });
  if (!chooses) setenv("TERSE_PROFILE", "none", 0);
  return terse::perf::run_perf(terse::perf::find_collective(TERSE_PERF_COLLECTIVE), argc, argv);
}
