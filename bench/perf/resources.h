// Communicators, streams and buffers of a run.
#pragma once

#include "bench.h"

namespace terse::perf {

// Enough for the largest size of every data type that is run.
std::size_t buffer_bytes(const Run& run);

// Streams and buffers of all ranks of this process, and, unless threads do it (-p 1),
// communicators.
void create_resources(Run* run, const ncclUniqueId& id);

// With -p 1: this thread's communicators. Every thread calls it.
void create_thread_resources(Run* run, const ncclUniqueId& id, int thread);

void destroy_resources(Run* run);

}  // namespace terse::perf
