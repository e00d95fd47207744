// What a step of the run took of its devices' memory, -M.
#pragma once

#include <functional>
#include <string>

#include "bench.h"

namespace terse::perf {

// Calls the body; with -M, adds what the fullest of thread 0's devices has less of after it. Of
// other threads' bodies nothing is noted.
void note_memory(Run* run, double MemoryUse::*step, int thread, const std::function<void()>& body);

// The largest of each step, over all threads of all processes, which all call it.
MemoryUse max_memory(const Run& run, int thread);

// "4.00 MB", in the digits of nccl-tests.
std::string print_bytes(double bytes);

}  // namespace terse::perf
