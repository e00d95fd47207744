// TERSE_LOG=trace: a line for each call, with what becomes of it.
#pragma once

#include "engine/call/route.h"

namespace terse {

void trace(const Communicator& communicator, const Request& request, const Route& way);

// Of a call that goes to NCCL after all, or before any rule is asked.
void trace(const Communicator& communicator, const Request& request, int bypass_reason);

}  // namespace terse
