// Binding of a plan's places to addresses.
#pragma once

#include "engine/run/work.h"

namespace terse {

// Memory of a call, beside the caller's buffers.
struct Regions {
  char* scratch = nullptr;
  char* exact = nullptr;
  char* state = nullptr;
  float* codebook = nullptr;
};

char* address(const plan::Place& place, const Request& request, const Regions& regions);

// NCCL's arguments for a native collective, without a stream.
Request request_of(const plan::Native& native, const Request& call, const Regions& regions);

// Fills the binding, whose memory is reused from call to call, and marks it busy. `sequence`:
// number of the call on its communicator, for the random numbers.
void bind(const plan::Plan& plan, const Work& work, uint64_t sequence, const Regions& regions,
          Binding& binding);

}  // namespace terse
