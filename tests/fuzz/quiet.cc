// Refusals are what fuzzing is about: they are not logged.
#include "base/log.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  terse::set_log_level(terse::LogLevel::kOff);
  return 0;
}
