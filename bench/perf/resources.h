// Communicators, streams and buffers of a run.
#ifndef TERSE_BENCH_PERF_RESOURCES_H_
#define TERSE_BENCH_PERF_RESOURCES_H_

#include "bench.h"

namespace terse::perf {

// Enough for the largest size of every data type that is run.
std::size_t BufferBytes(const Run& run);

// Streams and buffers of all ranks of this process, and, unless threads do it (-p 1),
// communicators.
void CreateResources(Run* run, const ncclUniqueId& id);

// With -p 1: this thread's communicators. Every thread calls it.
void CreateThreadResources(Run* run, const ncclUniqueId& id, int thread);

void DestroyResources(Run* run);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_RESOURCES_H_
