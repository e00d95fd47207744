// Waits of the host for a communicator's enqueued work. Each fails after 10 times TERSE_TIMEOUT,
// and if the communicator fails: the work may wait for what another rank enqueues after its own
// call, which waits here for this rank's.
#pragma once

#include "engine/comm/communicator.h"

namespace terse {

// First lane of the stream's set, behind what the caller and the communicator have enqueued.
Stream lane_after_all(Communicator& c, Stream caller);

void wait_for(const Communicator& c, Stream lane);

// Waits for all streams of the communicator, whose calls may use what is to be freed.
void wait_for_all(const Communicator& c);

}  // namespace terse
