// TERSE_LOG=trace: a line for each call, with what becomes of it.
#pragma once

#include "engine/call/route.h"

namespace terse {

void trace(const Communicator& communicator, const Request& request, const Route& way);

// Of a call that goes to NCCL after all, or before any rule is asked.
void trace(const Communicator& communicator, const Request& request, int bypass_reason);

// The algorithm's name, of a call that is compressed. The plan is made once more, for its name
// alone: whoever traces has the time.
const char* algorithm(const Communicator& communicator, const Request& request,
                      const Scheme& scheme);

}  // namespace terse
