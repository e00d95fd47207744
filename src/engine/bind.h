// Turns the places of a plan into addresses.
#pragma once

#include "engine/work.h"

namespace terse {

// In the caller's buffers or in `scratch`.
char* address(const plan::Place& place, const Request& request, char* scratch);

// Fills the binding, whose memory is reused from call to call, and makes it busy.
// `sequence` is the call's on its communicator, for the random numbers.
void bind(const plan::Plan& plan, const Work& work, uint64_t sequence, char* scratch,
          Binding& binding);

}  // namespace terse
