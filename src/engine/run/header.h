// Header of a call, by which ranks see whether they are at the same call.
#pragma once

#include "engine/run/work.h"

namespace terse {

// `agrees`: NCCL compares it with those of all ranks, and it has no sender.
codec::CallHeader header_of(const Job& job, bool agrees);

// Header step for the backend. A host that finds a mismatch fails its communicator at once.
HeaderStep header_step(const Job& job, const codec::HeaderWork& work);

}  // namespace terse
