// PendingCall on the host for what a communicator has enqueued. Each fails after 10 times
// TERSE_TIMEOUT, and where the communicator fails: what is waited for may itself wait for what
// another rank enqueues after its own call, which waits here for this rank's.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// The first lane of the stream's track, behind what the caller and the communicator have enqueued.
Stream lane_after_all(Communicator& c, Stream caller);

void wait_for(const Communicator& c, Stream lane);

// All streams of the communicator, whose calls may use what is to be freed.
void wait_for_all(const Communicator& c);

}  // namespace terse
