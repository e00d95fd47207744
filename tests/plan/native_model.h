// NCCL's own collectives, as functions.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace terse::plan {

using Bytes = std::vector<char>;

// What `rank` of that many sends; elements of the call are 32-bit integers, and are summed up.
size_t sent_bytes(const Native& native, int rank, int ranks);

// What it receives, given what each rank sends.
Bytes received(const Native& native, int rank, const std::vector<Bytes>& sent);

}  // namespace terse::plan
