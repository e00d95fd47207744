// The header of a call, by which ranks know whether they are at the same one.
#pragma once

#include "engine/run/work.h"

namespace terse {

// `agrees`: NCCL compares it with those of all ranks, and it has no sender.
codec::CallHeader header_of(const Job& job, bool agrees);

// As the backend takes it; where a host finds a mismatch its communicator fails at once.
HeaderStep header_step(const Job& job, const codec::HeaderWork& work);

}  // namespace terse
