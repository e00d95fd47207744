// Warnings of calls that may do harm, each once, on rank 0.
#pragma once

#include "engine/run/job.h"

namespace terse {

// Of a compressed call: AllGathers whose result differs between ranks (own=exact); a gather in fp32
// that never came before, as of a checkpoint; gradients beside tensor parallelism without
// exclusions.
void warn_of_dangers(const Job& job) noexcept;

}  // namespace terse
