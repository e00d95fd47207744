// TERSE_LOG=trace: a line for each call, with its route.
#pragma once

#include "engine/call/route.h"

namespace terse {

void trace(const Communicator& communicator, const Request& request, const Route& way);

// Logs a call that goes to NCCL after all, or before any rule is asked.
void trace(const Communicator& communicator, const Request& request, int bypass_reason);

// Name of a compressed call's algorithm. Makes the plan once more for it, for tracing alone.
const char* algorithm(const Communicator& communicator, const Request& request,
                      const Scheme& scheme);

}  // namespace terse
